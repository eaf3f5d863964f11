"""One process at a time in a folder, and no JVM of an earlier one beside it."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import StoreUnavailableError
from holdfast.storage import lock_file as guard
from holdfast.storage.lock_file import FolderGuard
from tests.pipeline.sources.processes import python

HOLD = """
import sys
import threading
from pathlib import Path
from holdfast.storage.lock_file import FolderGuard
with FolderGuard(Path(sys.argv[1])) as guard:
    if len(sys.argv) > 2:
        guard.note_spark(int(sys.argv[2]))
    print("held", flush=True)
    sys.stdin.readline()
print("left", flush=True)
sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "PATIENCE", 0.2)


@pytest.fixture
def jvm() -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives on by itself."""
    with subprocess.Popen(["sleep", "300"]) as process:
        yield process
        process.kill()


def say(process: subprocess.Popen[str], line: str = "\n") -> None:
    assert process.stdin is not None
    process.stdin.write(line)
    process.stdin.flush()


def hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_folder_is_for_one_process(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "clean" / "1"
    with python(HOLD, folder) as other:
        assert hear(other) == "held"
        with pytest.raises(StoreUnavailableError, match="another process has it"):
            FolderGuard(folder)
        say(other)
        assert hear(other) == "left"
        with FolderGuard(folder):
            pass


def test_whoever_waits_gets_the_folder_when_it_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "PATIENCE", 20.0)
    with python(HOLD, tmp_path) as other:
        assert hear(other) == "held"
        say(other)
        with FolderGuard(tmp_path):
            assert hear(other) == "left"


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    with python(HOLD, tmp_path) as other:
        assert hear(other) == "held"
        other.kill()
        other.wait()
        with FolderGuard(tmp_path):
            pass


def test_a_process_may_hold_several_folders(tmp_path: Path) -> None:
    with (
        FolderGuard(tmp_path / "a"),
        FolderGuard(tmp_path / "b"),
        pytest.raises(StoreUnavailableError, match="stop that one first"),
    ):
        FolderGuard(tmp_path / "a")
    with FolderGuard(tmp_path / "a"):
        pass


def test_the_jvm_of_a_killed_process_is_ended(tmp_path: Path, jvm: subprocess.Popen[bytes]) -> None:
    with python(HOLD, tmp_path, jvm.pid) as other:
        assert hear(other) == "held"
        assert jvm.poll() is None
        other.kill()
        other.wait()
    with FolderGuard(tmp_path):
        assert jvm.wait(60) == -9


def test_a_process_that_has_got_the_number_of_the_jvm_is_left_alone(
    tmp_path: Path, jvm: subprocess.Popen[bytes]
) -> None:
    with FolderGuard(tmp_path) as held:
        held.note_spark(jvm.pid)
    noted = tmp_path / "spark.pid"
    pid, began = noted.read_text().split()
    noted.write_text(f"{pid} {int(began) - 1}")
    with FolderGuard(tmp_path):
        assert jvm.poll() is None


def test_a_note_is_never_seen_half_written(tmp_path: Path, jvm: subprocess.Popen[bytes]) -> None:
    """A process that is killed between two writes would leave its JVM to the next one."""
    with FolderGuard(tmp_path) as held:
        held.note_spark(jvm.pid)
        noted, seen, over = tmp_path / "spark.pid", set(), threading.Event()

        def look() -> None:
            while not over.is_set():
                seen.add(noted.read_text())

        looking = threading.Thread(target=look)
        looking.start()
        for _ in range(200):
            held.note_spark(jvm.pid)
        over.set()
        looking.join()
    assert [text.split()[0] for text in seen] == [str(jvm.pid)]


def test_a_jvm_that_nobody_has_looked_after_is_gone(tmp_path: Path) -> None:
    """It is dead, but its parent, this process, has not been told."""
    with subprocess.Popen(["sleep", "300"]) as process:
        with FolderGuard(tmp_path) as held:
            held.note_spark(process.pid)
        process.kill()
        with FolderGuard(tmp_path):
            assert process.wait() == -9


@pytest.mark.parametrize("noted", ["", "12", "no numbers", "999999999 5", "0 0 0", "\0 1"])
def test_a_note_that_says_nothing_is_passed_over(tmp_path: Path, noted: str) -> None:
    (tmp_path / "spark.pid").write_text(noted)
    with FolderGuard(tmp_path):
        pass
