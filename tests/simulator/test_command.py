"""The command line of the simulator."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from harness.parts import REPOSITORY
from holdfast.cli import run_app
from simulator.__main__ import app


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run the simulator in this process: exit code, standard output, standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["simulator", *arguments])
        with pytest.raises(SystemExit) as ended:
            run_app(app, "simulator")
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return run


SMALL = ("--topology", "chain-1", "--faults", "none", "--workers", "1")


def test_runs_seeds_and_prints_a_summary(run) -> None:
    code, out, err = run("--seeds", "2", "--first-seed", "7", *SMALL)
    assert (code, err) == (0, "")
    assert "seeds 7 to 8, policy switch, topology chain-1, faults none" in out


def test_tells_one_seed_and_draws_it(run, tmp_path: Path) -> None:
    picture, trace = tmp_path / "run.svg", tmp_path / "trace.txt"
    code, out, err = run(
        *("--seed", "7", "--keep", "0", "--topology", "chain-1"),
        *("--picture", str(picture), "--trace", str(trace)),
    )
    assert (code, err) == (0, "")
    assert "seed 7 is right" in out
    assert "<svg" in picture.read_text()
    assert "base processes buckets 0 to 0" in trace.read_text()


@pytest.mark.parametrize("one", [True, False])
def test_exits_with_1_if_a_seed_fails(run, monkeypatch: pytest.MonkeyPatch, one: bool) -> None:
    monkeypatch.setattr("simulator.trial.check", lambda run: ["all is lost"])
    code, out, _ = run(*(("--seed", "3") if one else ("--seeds", "2")), *SMALL)
    assert code == 1
    replay = "python -m simulator --seed {} --policy switch --topology chain-1 --faults none"
    assert replay.format(3 if one else 0) in out


def test_names_all_there_is_to_choose(run) -> None:
    from simulator.scenario import FAULTS, POLICIES
    from simulator.topologies import TOPOLOGIES

    _, out, _ = run("--help")
    words = set(out.replace(",", " ").replace(".", " ").split())
    assert {*FAULTS, *POLICIES, *TOPOLOGIES} <= words


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (["--policy", "swich"], "policy: is 'swich'; give one of switch"),
        (["--faults", "some"], "faults: is 'some'; give one of all"),
        (["--topology", "ring"], "topology: there is none called 'ring'; give one of any"),
        (["--seeds", "0"], "give at least one"),
        (["--workers", "0"], "give at least 1"),
        (["--keep", "1"], "--keep: does not go without --seed"),
        (["--trace", "x"], "--trace: does not go without --seed"),
        (["--seed", "1", "--seeds", "2"], "--seeds: does not go with --seed"),
        (["--seed", "1", "--keep", "x"], "give them like 0,3,5, or none"),
        (["--seed", "1", "--keep", "77"], "there is no fault 77"),
        (["--seed", "1", "--picture", "x.gif"], ".png or .svg"),
    ],
)
def test_mistakes_are_explained(run, options: list[str], remedy: str) -> None:
    code, out, err = run(*options)
    assert (code, out) == (1, "")
    assert remedy in err


def test_a_real_interrupt_leaves_a_summary_and_no_process() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "simulator", "--seeds", "100000", "--workers", "2", *SMALL[:4]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        # All of a group of their own get the signal, as from a terminal.
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    # The first line of progress: the workers are at it.
    first = process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "of 100,000 seeds" in first
    assert ": interrupted" in out
    assert "Traceback" not in err
    deadline = time.monotonic() + 30
    while living_of_group(process.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert living_of_group(process.pid) == []


def living_of_group(group: int) -> list[str]:
    """The processes of a group, but for those that have ended and wait to be noticed."""
    living = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, of_group = path.read_text().rpartition(")")[2].split()[:3]
            if int(of_group) == group and state != "Z":
                living.append(path.parent.name)
    return living
