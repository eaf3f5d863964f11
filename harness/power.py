"""Disks that lose power: files that are cut or flipped, or that forget what was not flushed.

A `ForgetfulDisk` knows of every file under a folder what of it was flushed, by a library that is
loaded into the processes that write there. When the power goes, what was not flushed is there, or
it is not, or a part of it: for each file by itself.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Lock, Thread
from typing import Self

from harness.deployment import Deployment, EndedError
from harness.faults import settle
from harness.parts import REPOSITORY
from holdfast.pipeline.process.segment_log import HEAD

__all__ = ["STRIKES", "ForgetfulDisk", "strike"]

ADVICE = ("delete ", "empty folder", "truncate -s")
"""One of these says what to do with a replica that refuses to start."""
MESSAGE = 10_000
"""Characters at the end of a log in which the last message is."""


class ForgetfulDisk:
    """The files under a folder, and what would be left of them. A context manager."""

    def __init__(self, folder: Path, beside: Path) -> None:
        """`beside`: a folder on the same file system for what is remembered."""
        self.folder = folder.resolve()
        self._flushed = beside / "flushed"
        self._held = beside / "held"
        for each in (self._flushed, self._held):
            each.mkdir(parents=True)
        self._names: dict[Path, int] = {}
        """The files that would be found, and their inodes."""
        self._lock = Lock()
        library = beside / "forgetful.so"
        source = REPOSITORY / "harness" / "forgetful.c"
        subprocess.run([REPOSITORY / "scripts" / "require-compiler.sh"], check=True)
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-o", library, source, "-ldl"], check=True
        )
        address = beside / "socket"
        self.environment = {
            "LD_PRELOAD": str(library),
            "FORGETFUL_ROOT": str(self.folder),
            "FORGETFUL_SOCKET": str(address),
        }
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(address))
        self._server.listen(64)
        self._thread = Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._server.close()

    def lose_power(self, folder: Path, random: Random) -> str:
        """Leave of the files of a folder, which nobody writes to now, what a power failure may
        leave; answers what was lost."""
        with self._lock:
            mode = random.choice(("all of it", "some of it"))
            lost = [
                path
                for path in sorted({*_files(folder), *_within(self._names, folder)})
                if self._lose(path, mode, random)
            ]
            self._remember_all(folder)
        return f"{mode} of what was not flushed is lost, of {len(lost)} files"

    def _lose(self, path: Path, mode: str, random: Random) -> bool:
        """Whether it is another file afterwards."""
        now = path.read_bytes() if path.exists() else None
        inode = self._names.get(path)
        kept = None
        if inode is not None:
            copy = self._flushed / str(inode)
            kept = copy.read_bytes() if copy.exists() else b""
        left = kept
        if mode == "some of it":
            left = random.choice((now, kept))
            if now is not None and kept is not None and now.startswith(kept):
                left = now[: random.randint(len(kept), len(now))]
        if left == now:
            return False
        path.unlink(missing_ok=True)
        if left is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(left)
        return True

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._server.accept()
            except OSError:
                return
            with caller, caller.makefile("rb") as lines:
                line = lines.readline().decode().rstrip("\n")
                with self._lock:
                    self._hear(line[:1], Path(line[1:]))
                # Whoever has flushed it may have been killed.
                with suppress(OSError):
                    caller.sendall(b"k")

    def _hear(self, kind: str, path: Path) -> None:
        if kind == "a":
            self._remember_all(self.folder)
        elif path.is_dir():
            self._remember_names(path)
        else:
            self._remember(path)

    def _remember_all(self, folder: Path) -> None:
        for path in [path for path in _within(self._names, folder) if not path.exists()]:
            del self._names[path]
        for path in list(_files(folder)):
            self._remember(path)
            self._remember_name(path)

    def _remember_names(self, folder: Path) -> None:
        for path in [path for path in self._names if path.parent == folder and not path.exists()]:
            del self._names[path]
        for path in folder.iterdir():
            if path.is_file():
                self._remember_name(path)

    def _remember_name(self, path: Path) -> None:
        inode = self._hold(path)
        if inode is not None:
            self._names[path] = inode

    def _remember(self, path: Path) -> None:
        """Keep what is in the file now."""
        inode = self._hold(path)
        if inode is None:
            return
        copy = self._flushed / str(inode)
        now = (self._held / str(inode)).stat()
        # As `cp --update` does: files that stay as they are are not copied again and again.
        if copy.exists():
            then = copy.stat()
            if (then.st_size, then.st_mtime_ns) == (now.st_size, now.st_mtime_ns):
                return
        shutil.copy2(self._held / str(inode), copy)

    def _hold(self, path: Path) -> int | None:
        """Keep the file, so that no other one gets its inode; None if it is gone."""
        try:
            inode = path.stat().st_ino
            held = self._held / str(inode)
            if not held.exists():
                os.link(path, held)
        except FileNotFoundError:
            return None
        return inode


def strike(deployment: Deployment, disk: ForgetfulDisk, name: str, random: Random) -> str:
    """Kill one replica, or all; do this to their files; start them again. The rows that follow are
    right, or the replica refuses to start and says what helps, and that does help."""
    victims = random.choice((deployment.replicas, [random.choice(deployment.replicas)]))
    deployment.ended.clear()
    said = []
    for victim in victims:
        deployment.kill(victim)
    for victim in victims:
        folder = deployment.topology.state_folder / victim
        if name == "power":
            said.append(f"{victim}: {disk.lose_power(folder, random)}")
        else:
            said.append(f"{victim}: {STRIKES[name](folder, random)}")
    for victim in victims:
        deployment.start_replica(victim)
    while True:
        try:
            settle(deployment)
        except EndedError as refusal:
            # The message of the error shows the beginning of each line.
            text = deployment.processes[refusal.name].log.read_text(errors="replace")[-MESSAGE:]
            if not any(each in text for each in ADVICE):
                raise AssertionError(f"{said}: no advice in {text}") from refusal
            said.append(f"{refusal.name} refuses")
            deployment.kill(refusal.name)
            deployment.ended.clear()
            deployment.start_replica(refusal.name, empty=True)
        else:
            return f"{name}: {'; '.join(said)}"


# What is done to the files in the folder of a replica


def cut_log(folder: Path, random: Random) -> str:
    """Up to ten whole records are gone from the tail of its log."""
    paths = [path for path in sorted((folder / "log").glob("*.log")) if path.stat().st_size]
    if not paths:
        return "no log"
    ends = [0, *_ends_of_records(paths[-1])]
    cut = min(random.randint(1, 10), len(ends) - 1)
    os.truncate(paths[-1], ends[-1 - cut])
    return f"{cut} records cut from the log"


def cut_journal(folder: Path, random: Random) -> str:
    """Up to ten of its newest entries are gone."""
    entries = sorted((folder / "journal").glob("*.entry"))
    cut = entries[-random.randint(1, 10) :]
    for path in cut:
        path.unlink()
    return f"{len(cut)} entries cut from the journal"


def cut_checkpoint(folder: Path, random: Random) -> str:
    """Up to ten of its newest files are gone."""
    paths = [path for path in _files(folder / "checkpoint") if path.suffix != ".crc"]
    paths.sort(key=lambda path: path.stat().st_mtime_ns)
    cut = paths[-random.randint(1, 10) :]
    for path in cut:
        path.unlink()
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    return f"{len(cut)} files cut from the checkpoint"


def flip(folder: Path, random: Random) -> str:
    """One bit of one file."""
    path = _some_file(folder, random)
    data = bytearray(path.read_bytes())
    at = random.randrange(len(data))
    data[at] ^= 1 << random.randrange(8)
    path.write_bytes(data)
    return f"a bit flipped at byte {at} of {path.relative_to(folder)}"


def shorten(folder: Path, random: Random) -> str:
    """One file ends somewhere."""
    path = _some_file(folder, random)
    size = random.randrange(path.stat().st_size)
    os.truncate(path, size)
    return f"{path.relative_to(folder)} cut at byte {size}"


def remove(folder: Path, random: Random) -> str:
    """One file is gone."""
    path = _some_file(folder, random)
    path.unlink()
    return f"{path.relative_to(folder)} removed"


STRIKES: dict[str, Callable[[Path, Random], str]] = {
    "log": cut_log,
    "journal": cut_journal,
    "checkpoint": cut_checkpoint,
    "flip": flip,
    "shorten": shorten,
    "remove": remove,
}


def _some_file(folder: Path, random: Random) -> Path:
    """A file with something in it; each part of the folder is as likely as another."""
    parts: dict[str, list[Path]] = {}
    for path in sorted(_files(folder)):
        if path.stat().st_size:
            parts.setdefault(path.relative_to(folder).parts[0], []).append(path)
    return random.choice(parts[random.choice(sorted(parts))])


def _files(folder: Path) -> Iterator[Path]:
    for where, _, names in os.walk(folder):
        for name in names:
            yield Path(where) / name


def _within(paths: dict[Path, int], folder: Path) -> list[Path]:
    return [path for path in paths if path.is_relative_to(folder)]


def _ends_of_records(path: Path) -> list[int]:
    data = path.read_bytes()
    ends, at = [], 0
    while at + HEAD.size <= len(data):
        _, header, _, size, _, _ = HEAD.unpack_from(data, at)
        at += HEAD.size + header + size
        if at <= len(data):
            ends.append(at)
    return ends
