"""The demonstration with its real pipeline: four replicas on Spark, killed, cut and interrupted."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from holdfast.demo import show
from tests.sources.rig import wait_for

pytestmark = pytest.mark.timeout(600)


def sessions() -> dict[int, list[str]]:
    """The command lines of all processes, by session."""
    found: dict[int, list[str]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (
                (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            )
        except OSError:
            continue  # It has just ended.
        if fields[0] != "Z":
            found.setdefault(int(fields[3]), []).append(command)
    return found


def test_the_answers_hold(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=200)
    handler = signal.getsignal(signal.SIGINT)
    show.run(console, tmp_path, sensors=6, minutes=3, updates=2_000, kills=2)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    # A reading every second for 180 s; the watermark is 2 s behind the newest, at 179 s.
    assert "1,080 readings in, 1,062 windows out" in text
    assert "windows, 0 differ from Spark's own." in text
    assert "2 kills; 2,000 answers" in text
    assert "0 differ from an uninterrupted run" in text
    assert "0 differ from those of a run without failures" in text
    assert text.rstrip().endswith("The answers hold.")
    for name in ("sensors", "failure"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / f"{name}.html").read_text().count("<svg") == 1
    assert "1,080 readings in" in (tmp_path / "sensors.html").read_text()
    assert "tentative answers" in (tmp_path / "failure.html").read_text()
    assert signal.getsignal(signal.SIGINT) is handler


def test_ctrl_c_leaves_no_process(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "holdfast", "demo", "--folder", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        # By then a replica has its Spark.
        wait_for(lambda: list(tmp_path.glob("pipeline/demo-state/*/*/spark.pid")), 300)
        file = str(tmp_path / "pipeline" / "demo.toml")
        ours = {session for session, all_ in sessions().items() if any(file in c for c in all_)}
        assert len(ours) == 4
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        said = process.stdout.read().decode()
        assert process.wait(60) == 130, said
    assert "Traceback" not in said
    # A JVM notices a moment later that its Python is gone.
    wait_for(lambda: not ours & set(sessions()), 30)
