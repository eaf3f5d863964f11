"""Files pinned at submission: their digests, and checks of these.

A check hashes the whole file, and compares its inode and its times with those that the process saw
first. So a file that is rewritten is found by its bytes, and one that is rewritten, read and
restored by its change time, which no call sets on POSIX file systems and NFS.
"""

from __future__ import annotations

import ast
import os
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import file_digest
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import resolve_name
from pathlib import Path
from typing import Final, TypeVar

from holdfast.errors import InvalidArgumentError
from holdfast.verify.process.job_files import parse_code, read_code

# Files of Python code that a job's file imports, and those that these import in turn.
#
# They are found in the text, without running it. Left out is what is installed: the standard
# library, `site-packages`, Spark and Holdfast itself.

_STANDARD: Final = tuple(Path(sysconfig.get_path(each)) for each in ("stdlib", "platstdlib"))
_PACKAGES: Final = {"site-packages", "dist-packages"}
_INSTALLED: Final = {"holdfast", "py4j", "pyspark"}
"""Wherever they are."""


def imported_files(file: Path, code: bytes) -> tuple[str, ...]:
    """In order of their names. Modules are looked for as replicas do: in this process's folder,
    then along `sys.path`."""
    if file.suffix != ".py":
        return ()
    found: set[str] = set()
    waiting = list(_specs_in(parse_code(file, code), ""))
    while waiting:
        spec = waiting.pop()
        origin = spec.origin
        if origin is None or origin in found or not _is_own(Path(origin)):
            continue
        found.add(origin)
        is_package = spec.submodule_search_locations is not None
        waiting += _specs_of(Path(origin), spec.name if is_package else spec.parent or "")
    return tuple(sorted(found))


def _specs_of(path: Path, package: str) -> Iterator[ModuleSpec]:
    if path.suffix != ".py":
        return
    try:
        tree = parse_code(path, read_code(path))
    except InvalidArgumentError:
        # Whoever imports it says so, if that is not expected there.
        return
    yield from _specs_in(tree, package)


def _specs_in(tree: ast.Module, package: str) -> Iterator[ModuleSpec]:
    for name in dict.fromkeys(_names_in(tree, package)):
        yield from _find(name)


def _names_in(tree: ast.Module, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                try:
                    base = resolve_name("." * node.level + base, package)
                except ImportError:
                    continue
            yield base
            # Any of them may be a module.
            yield from (f"{base}.{each.name}" for each in node.names)


def _find(name: str) -> Iterator[ModuleSpec]:
    """Of a module and of the packages that it is in, as far as there are files."""
    locations: Sequence[str] | None = [str(Path.cwd()), *sys.path]
    parts = name.split(".")
    if parts[0] in _INSTALLED:
        return
    for count in range(1, len(parts) + 1):
        if locations is None:
            return
        spec = PathFinder.find_spec(".".join(parts[:count]), list(locations))
        if spec is None:
            return
        yield spec
        locations = spec.submodule_search_locations


def _is_own(path: Path) -> bool:
    path = path.absolute()
    is_standard = any(map(path.is_relative_to, _STANDARD))
    return path.is_file() and not is_standard and not _PACKAGES.intersection(path.parts)


CHANGED: Final = 3
"""The exit code of a process that has found a file changed."""
CODE: Final = "of imported code"
"""The source that has all files of code that the job's file imports."""
PROGRAM: Final = "of the program"
"""The source that has all files that a program lists."""
THREADS: Final = 8
"""Files that are hashed side by side."""

_REPLACED: Final = "was written to or replaced since it was read first"

Given = TypeVar("Given")
Made = TypeVar("Made")
_Identity = tuple[int, int, int, int, int]


class ChangedFileError(InvalidArgumentError):
    """A file is not as it was when the job was submitted."""


@dataclass(frozen=True)
class SourceFile:
    path: str
    size: int
    """In bytes, when the job was submitted."""
    digest: bytes
    """SHA-256 of the file, when the job was submitted."""


def pin_files(paths: Iterable[str]) -> tuple[SourceFile, ...]:
    """The files as they are now."""
    return tuple(_in_parallel(_pin, list(paths)))


def has_changed(file: SourceFile) -> bool:
    """Whether a file has other bytes than when it was pinned, or cannot be read."""
    try:
        return os.path.getsize(file.path) != file.size or _pin(file.path) != file
    except OSError:
        return True


class PinnedFiles:
    """The checks of one process."""

    def __init__(self) -> None:
        self._seen: dict[str, _Identity] = {}

    def check(self, source: str, files: Sequence[SourceFile]) -> None:
        """Raise ChangedFileError unless all have the bytes that they had, and had them ever since
        the first check."""
        for error in _in_parallel(lambda file: self._wrong(source, file), files):
            if error is not None:
                raise error

    def knows(self, file: SourceFile) -> bool:
        """Whether it was checked before."""
        return file.path in self._seen

    def check_times(self, source: str, files: Sequence[SourceFile]) -> None:
        """`check` of files that were checked before, by their inodes and times alone."""
        for file in files:
            try:
                with open(file.path, "rb") as opened:
                    is_same = _identity(opened.fileno()) == self._seen[file.path]
            except OSError as error:
                raise _gone(source, file.path, error) from error
            if not is_same:
                raise _changed(source, file.path, _REPLACED)

    def _wrong(self, source: str, file: SourceFile) -> ChangedFileError | None:
        try:
            with open(file.path, "rb") as opened:
                # Opening it makes NFS ask the server for its times.
                identity = _identity(opened.fileno())
                first = self._seen.setdefault(file.path, identity)
                size = identity[2]
                if size != file.size:
                    text = f"has {size} bytes and had {file.size} when the job was submitted"
                    return _changed(source, file.path, text)
                digest = file_digest(opened, "sha256").digest()
        except OSError as error:
            return _gone(source, file.path, error)
        if digest != file.digest:
            text = (
                f"has the digest {digest.hex()[:16]} and had {file.digest.hex()[:16]} when the job "
                "was submitted"
            )
            return _changed(source, file.path, text)
        if identity != first:
            return _changed(source, file.path, _REPLACED)
        return None


def _pin(path: str) -> SourceFile:
    with open(path, "rb") as opened:
        return SourceFile(
            path, os.fstat(opened.fileno()).st_size, file_digest(opened, "sha256").digest()
        )


def _identity(handle: int) -> _Identity:
    found = os.fstat(handle)
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _changed(source: str, path: str, what: str) -> ChangedFileError:
    return ChangedFileError(
        f"source {source}: {path} {what}; leave files alone while a job runs, let replicas have no "
        "right to write to them, and submit the job again"
    )


def _gone(source: str, path: str, error: OSError) -> ChangedFileError:
    return ChangedFileError(
        f"source {source}: {path}: {error.strerror}; it was there when the job was submitted, see "
        "whether all hosts have it"
    )


def _in_parallel(work: Callable[[Given], Made], given: Sequence[Given]) -> list[Made]:
    if len(given) < 2:
        return [work(each) for each in given]
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(work, given))
