"""The demonstration with its real pipeline, interrupted. `make demo` runs it to its end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.sources.rig import wait_for

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


def test_ctrl_c_leaves_no_process(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "holdfast", "demo", "--folder", str(tmp_path)]
    # Who runs the tests in the background has SIGINT ignored, and so would have what they start.
    with subprocess.Popen(
        ["env", "--default-signal=INT", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
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
    wait_for(lambda: not ours & set(sessions()))
