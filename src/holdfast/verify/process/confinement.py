"""Lets a process write to some folders alone, by Landlock, which Linux has since 5.13.

    python confinement.py FOLDER ... -- COMMAND ...

Reading stays as it was. What the process starts is confined as it is, whatever its user; it cannot
look into the memory of others either, and since Linux 6.12 cannot signal them. Run as a file, it
needs nothing of Holdfast and is there at once.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/random", "/dev/urandom")
"""Files that a confined process may write to in any case."""

_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
"""System calls; their numbers are the same on all processors."""
_VERSION: Final = 1
"""Flag of the first: answers the version of Landlock."""
_PATH_BENEATH: Final = 1
_NO_NEW_PRIVILEGES: Final = 38
_WRITE_FILE: Final = 1 << 1
_CHANGE_FOLDER: Final = sum(1 << bit for bit in range(4, 13))
"""To remove, and to make anything."""
_REFER: Final = 1 << 13
"""To move from one folder to another; since version 2."""
_TRUNCATE: Final = 1 << 14
"""Since version 3; before, files of others could be emptied."""
_NEEDED: Final = 3
_SIGNAL_SCOPE: Final = 1 << 1
"""Since version 6."""


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("files", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def can_confine() -> bool:
    return _version() >= _NEEDED


def confine(folders: Sequence[str | os.PathLike[str]]) -> None:
    """Let this thread, and what it starts from now on, write to these folders alone. They must be
    there. Raises OSError if that cannot be."""
    version = _version()
    if version < _NEEDED:
        raise OSError("this kernel has no Landlock of version 3 or later")
    rights = _WRITE_FILE | _CHANGE_FOLDER | _REFER | _TRUNCATE
    ruleset = _Ruleset(rights, 0, _SIGNAL_SCOPE if version >= 6 else 0)
    size = ctypes.sizeof(ruleset) if version >= 6 else ctypes.sizeof(ctypes.c_uint64)
    handle = _call(_CREATE_RULESET, ctypes.byref(ruleset), ctypes.c_size_t(size), 0)
    try:
        for folder in folders:
            _allow(handle, folder, rights)
        for device in filter(os.path.exists, DEVICES):
            _allow(handle, device, _WRITE_FILE | _TRUNCATE)
        _check(_libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        _call(_RESTRICT_SELF, handle, 0)
    finally:
        os.close(handle)


def confined(command: Sequence[str], folders: Sequence[str | os.PathLike[str]]) -> list[str]:
    """The command that runs another one confined to these folders."""
    return [sys.executable, "-P", "-S", __file__, *(str(each) for each in folders), "--", *command]


def _allow(ruleset: int, path: str | os.PathLike[str], rights: int) -> None:
    beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = _Beneath(rights, beneath)
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(beneath)


def _version() -> int:
    """0 if there is none."""
    if sys.platform != "linux":
        return 0
    size, flag = ctypes.c_size_t(0), ctypes.c_uint32(_VERSION)
    return max(0, int(_libc().syscall(_CREATE_RULESET, None, size, flag)))


def _call(number: int, *arguments: object) -> int:
    return _check(_libc().syscall(number, *arguments))


def _check(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def main(arguments: Sequence[str]) -> None:
    at = arguments.index("--")
    try:
        confine([Path(each) for each in arguments[:at]])
    except OSError as error:
        sys.exit(f"confinement: {error}; give confine = false, or a kernel with Landlock")
    os.execvp(arguments[at + 1], list(arguments[at + 1 :]))


if __name__ == "__main__":
    main(sys.argv[1:])
