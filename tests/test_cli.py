from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import holdfast
from holdfast import cli
from holdfast.errors import HoldfastError

COMMAND = Path(sys.executable).with_name("holdfast")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run `holdfast` in this process: exit code, standard output, standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["holdfast", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return run


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch):
    """Make `holdfast doctor` raise an error."""

    def raising(error: BaseException) -> None:
        def examine_machine() -> None:
            raise error

        monkeypatch.setattr("holdfast.doctor.examine_machine", examine_machine)

    return raising


def test_version(run) -> None:
    assert run("--version") == (0, f"holdfast {holdfast.__version__}\n", "")


def test_help_names_the_commands(run) -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert "doctor" in out
    assert "--version" in out


def test_no_arguments_show_the_help(run) -> None:
    code, out, err = run()
    assert code == 2
    assert "Usage: holdfast" in out + err


@pytest.mark.parametrize("arguments", [["docter"], ["--colour"], ["doctor", "--nonsense"]])
def test_usage_errors_exit_with_2(run, arguments: list[str]) -> None:
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert "Usage: holdfast" in err


def test_our_errors_are_one_line_and_exit_with_1(run, raising) -> None:
    message = (
        "pipeline.toml, stage [3]: no gate policy 'oder'; write one of order, switch " + "x" * 90
    )
    raising(HoldfastError(message))
    code, out, err = run("doctor")
    assert (code, out) == (1, "")
    assert err == f"error: {message}\n"


def test_other_errors_are_bugs_and_say_how_to_get_the_traceback(run, raising) -> None:
    raising(ZeroDivisionError("by [nothing]"))
    code, out, err = run("doctor")
    assert (code, out) == (70, "")
    assert err.startswith("internal error: ZeroDivisionError: by [nothing]\n")
    assert "holdfast --debug" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(("error", "expected"), [(HoldfastError("no"), 1), (KeyError("no"), 70)])
def test_debug_shows_the_traceback(run, raising, error: Exception, expected: int) -> None:
    raising(error)
    code, _, err = run("--debug", "doctor")
    assert code == expected
    assert "Traceback" in err
    assert "in examine_machine" in err


def test_interrupt_exits_with_130(run, raising) -> None:
    raising(KeyboardInterrupt())
    assert run("doctor")[0] == 130


def test_the_installed_command() -> None:
    ended = subprocess.run([COMMAND, "--version"], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, f"holdfast {holdfast.__version__}\n")
    ended = subprocess.run([COMMAND, "nonsense"], capture_output=True, text=True)
    assert ended.returncode == 2
    assert "No such command 'nonsense'" in ended.stderr


def test_a_real_interrupt_of_the_installed_command(tmp_path: Path) -> None:
    # A `java` that hangs keeps the doctor busy; it leaves a file when it has been started.
    started = tmp_path / "started"
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\ntouch {started}\nexec sleep 60\n")
    java.chmod(0o755)
    process = subprocess.Popen(
        [COMMAND, "doctor"],
        env={"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell starts its background jobs with interrupts ignored, and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 30
    while not started.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err
