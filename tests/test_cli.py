from __future__ import annotations

import os
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


@pytest.fixture
def series(tmp_path: Path) -> Path:
    path = tmp_path / "series.csv"
    path.write_text("value\n" + "\n".join(str(20 + at % 7) for at in range(500)))
    return path


def test_shadow_prints_a_report_and_draws(run, series: Path, tmp_path: Path) -> None:
    picture = tmp_path / "shadow.svg"
    code, out, err = run(
        *("shadow", str(series), "--last", "50", "--approximate", "max_leaves=10"),
        *("--approximate", "max_error=10%", "--aggregate", "sum", "--picture", str(picture)),
    )
    assert (code, err) == (0, "")
    assert "sum with max_leaves(10), max_error(10%" in out
    assert "exact answers" in out
    assert "<svg" in picture.read_text()


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (["--last", "50", "--approximate", "max_eror=1%"], "is no method; give max_error=0.1%"),
        (["--last", "50", "--approximate", "hops", "--column", "x"], "has no column 'x'"),
        (["--last", "900", "--approximate", "hops"], "a smaller --last"),
        (["--last", "0", "--approximate", "hops"], "at least 1"),
        (["--last", "50", "--approximate", "hops", "--aggregate", "median"], "take one of mean"),
        (["--last", "50", "--approximate", "hops", "--picture", "x.gif"], ".png or .svg"),
    ],
)
def test_mistakes_of_shadow_are_explained(
    run, series: Path, options: list[str], remedy: str
) -> None:
    code, out, err = run("shadow", str(series), *options)
    assert (code, out) == (1, "")
    assert remedy in err


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (["--demo"], "--demo: does not go without --console"),
        (["--participant", "north.toml"], "--participant: does not go without --console"),
        (["--tenants", "http://127.0.0.1:8080"], "--tenants: does not go without --console"),
        (["--tenant-token-file", "token"], "--tenant-token-file: does not go without --console"),
        (
            ["--console", "0", "--tenant-token-file", "token"],
            "--tenant-token-file: does not go without --tenants",
        ),
    ],
)
def test_what_belongs_to_the_console_of_a_run_is_not_ignored(
    run, options: list[str], remedy: str
) -> None:
    code, out, err = run("run", "fleet.toml", *options)
    assert (code, out) == (1, "")
    assert remedy in err


def test_who_is_not_in_quarantine_cannot_be_admitted(run, tmp_path: Path) -> None:
    from holdfast.pipeline.topology.reference import EXAMPLE

    file = tmp_path / "fleet.toml"
    file.write_text(EXAMPLE)
    code, out, err = run("readmit", str(file), "clean/1")
    assert (code, out) == (1, "")
    assert "no stage of the topology votes on clean" in " ".join(err.split())


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (["--faults", "0", "--allow-shared-hosts"], "faults: 0 is too few; give at least 1"),
        (["--config", "none.toml"], "none.toml: No such file or directory"),
        ([], "placement: no pools of hosts are given"),
        (["--check"], "job.py: makes no Job and marks no boundary"),
    ],
)
def test_mistakes_of_verify_are_explained(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], remedy: str
) -> None:
    monkeypatch.chdir(tmp_path)
    # Ctrl-C is for pytest here.
    monkeypatch.setattr("signal.signal", lambda *_: None)
    Path("job.py").touch()
    code, _, error = run("verify", "job.py", *options)
    assert code == 1
    assert remedy in error
    assert list(tmp_path.iterdir()) == [tmp_path / "job.py"]


@pytest.mark.parametrize(
    ("option", "value", "choices"),
    [
        ("--model", "evil", "'crash', 'byzantine'"),
        ("--mode", "fast", "'blocking', 'non-blocking', 'hybrid'"),
    ],
)
def test_choices_of_verify_are_told(run, option: str, value: str, choices: str) -> None:
    code, _, error = run("verify", "job.py", option, value)
    assert code == 2
    assert f"'{value}' is not one of {choices}" in " ".join(error.replace("│", "").split())


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "nowhere.toml"),
        ("run", "nowhere.toml"),
        ("tail", "minutes", "--file", "nowhere.toml"),
        ("console", "nowhere.toml"),
        ("edge", "check", "nowhere.toml"),
        ("contracts", "show", "nowhere.toml"),
        ("verify", "nowhere.toml"),
        ("shadow", "nowhere.toml", "--last", "1", "--approximate", "hops"),
    ],
)
def test_a_file_that_is_not_there_is_named_first(run, arguments: tuple[str, ...]) -> None:
    code, _, error = run(*arguments)
    assert code == cli.ExitCode.ERROR
    assert error.startswith("error: nowhere.toml: ")
    assert "no such file" in error.lower()


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "fleet.toml"),
        ("node", "fleet.toml", "clean/1"),
        ("verify", "fleet.toml", "--allow-shared-hosts"),
        ("serve", "--listen", "127.0.0.1:0"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_without_java_the_remedy_is_told(arguments: tuple[str, ...], tmp_path: Path) -> None:
    from holdfast.pipeline.topology.reference import EXAMPLE

    (tmp_path / "fleet.toml").write_text(EXAMPLE)
    ended = subprocess.run(
        [COMMAND, *arguments],
        cwd=tmp_path,
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == cli.ExitCode.ERROR
    assert "error: Spark needs Java >=17, found none; install Java 17" in ended.stderr
