"""Confinement: what a process may write to, and that all that it starts is confined as it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from holdfast.verify.process.confinement import _version, can_confine, confine, confined

pytestmark = pytest.mark.skipif(not can_confine(), reason="this kernel has no Landlock")

SPOIL = """
import os, subprocess, sys
from pathlib import Path
own, others = map(Path, sys.argv[1:3])
(own / "new").write_text("mine")
(own / "folder").mkdir()
os.rename(own / "new", own / "folder" / "moved")
def attempt(what, *arguments):
    try:
        what(*arguments)
    except OSError as error:
        print(type(error).__name__)
    else:
        print("done")
attempt((others / "file").write_text, "spoiled")
attempt(os.truncate, others / "file", 0)
attempt((others / "file").unlink)
attempt((others / "new").write_text, "x")
attempt(os.rename, own / "folder" / "moved", others / "file")
attempt(os.link, own / "folder" / "moved", others / "link")
attempt((others / "link").symlink_to, own)
attempt(open, "/dev/null", "w")
print((others / "file").read_text())
print(subprocess.run(["sh", "-c", f"echo x > {others}/file"], stderr=subprocess.DEVNULL).returncode)
"""


def test_only_the_own_folder_is_written_to(tmp_path: Path) -> None:
    own, others = tmp_path / "1", tmp_path / "2"
    own.mkdir()
    others.mkdir()
    (others / "file").write_text("right")
    command = confined([sys.executable, "-c", SPOIL, str(own), str(others)], [own])
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *attempts, null, text, code = done.stdout.split()
    assert attempts == ["PermissionError"] * 7
    assert null == "done"
    assert text == "right"
    assert int(code) != 0
    assert [path.name for path in others.iterdir()] == ["file"]
    assert (own / "folder" / "moved").read_text() == "mine"


@pytest.mark.skipif(_version() < 6, reason="this kernel does not keep signals in")
def test_others_are_neither_looked_into_nor_signalled(tmp_path: Path) -> None:
    sleeper = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    look = """
import os, sys
try:
    open(f"/proc/{sys.argv[1]}/mem", "rb")
except OSError as error:
    print(type(error).__name__)
try:
    os.kill(int(sys.argv[1]), 9)
except OSError as error:
    print(type(error).__name__)
"""
    try:
        command = confined([sys.executable, "-c", look, str(sleeper.pid)], [tmp_path])
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["PermissionError", "PermissionError"]
        assert sleeper.poll() is None
    finally:
        sleeper.send_signal(signal.SIGKILL)
        sleeper.wait()


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    command = confined(["true"], [tmp_path / "none"])
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "confinement: " in done.stderr


def test_a_thread_is_confined_alone(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    errors = []

    def work() -> None:
        confine([tmp_path / "own"])
        (tmp_path / "own" / "x").touch()
        try:
            (tmp_path / "x").touch()
        except OSError as error:
            errors.append(error)

    thread = Thread(target=work)
    thread.start()
    thread.join()
    assert len(errors) == 1
    (tmp_path / "y").touch()
    assert sorted(os.listdir(tmp_path)) == ["own", "y"]
