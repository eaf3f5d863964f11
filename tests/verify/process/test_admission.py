from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import InvalidArgumentError, StoreCorruptError, StoreUnavailableError
from holdfast.verify.process.admission import LEDGER, Admission
from holdfast.verify.process.config import Need, Pool

NEED = Need(cores=2, memory="1g")


def pools(cores: int | None = 3, memory: str | None = None) -> dict[int, Pool]:
    return {
        number: Pool(name=f"p{number}", hosts=(f"h{number}",), cores=cores, memory=memory)
        for number in (1, 2)
    }


def ask(folder: Path, job: str, cores: int | None = 3) -> Admission:
    return Admission(folder, job, pools(cores), NEED)


def test_a_job_takes_all_or_nothing(tmp_path: Path) -> None:
    with ask(tmp_path, "a") as first, ask(tmp_path, "b") as second:
        assert first.enter() == ""
        assert second.enter() == (
            "pool p1 has 3 cores, and the job needs 2, of which others have 2 (a)"
        )
        assert first.enter() == ""
        first.close()
        assert second.enter() == ""


def test_those_that_wait_come_in_in_their_order(tmp_path: Path) -> None:
    with ask(tmp_path, "a") as a, ask(tmp_path, "b") as b, ask(tmp_path, "c", None) as c:
        assert a.enter() == ""
        assert b.enter()
        assert c.enter() == "job b waits already and comes first"
        a.close()
        assert c.enter()
        assert b.enter() == ""
        assert c.enter() == ""


def test_a_job_that_could_never_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="pool p1 has 1 cores, and the job needs 2"):
        ask(tmp_path, "a", cores=1)
    with pytest.raises(InvalidArgumentError, match="pool p1 has 512 MiB, and the job needs 1024"):
        Admission(tmp_path, "a", pools(None, "512m"), NEED)


def test_replicas_that_share_a_pool_need_room_for_both(tmp_path: Path) -> None:
    shared = {number: pools()[1] for number in (1, 2)}
    with pytest.raises(InvalidArgumentError, match="has 3 cores, and the job needs 4"):
        Admission(tmp_path, "a", shared, NEED)


def test_what_a_killed_job_had_is_free(tmp_path: Path) -> None:
    script = f"""
import os, pathlib
from tests.verify.process.test_admission import ask
assert ask(pathlib.Path({str(tmp_path)!r}), "killed").enter() == ""
os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", script]).returncode == -9
    with ask(tmp_path, "a") as job:
        assert job.enter() == ""


def test_a_replica_moves_only_where_there_is_room(tmp_path: Path) -> None:
    third = Pool(name="p3", hosts=("h3",), cores=2)
    with ask(tmp_path, "a") as a, Admission(tmp_path, "b", {1: third}, NEED) as b:
        assert a.enter() == b.enter() == ""
        assert not a.move({1: pools()[1], 2: third})
        b.close()
        assert a.move({1: pools()[1], 2: third})
        with Admission(tmp_path, "c", {1: pools()[2]}, NEED) as c:
            assert c.enter() == ""


def test_a_damaged_ledger_is_named(tmp_path: Path) -> None:
    (tmp_path / LEDGER).write_text("{")
    with pytest.raises(StoreCorruptError, match=LEDGER):
        ask(tmp_path, "a").enter()


def test_a_ledger_that_is_damaged_later_ends_no_job(tmp_path: Path) -> None:
    """It moves nowhere then, and what it had is free all the same."""
    with ask(tmp_path, "a") as job:
        assert job.enter() == ""
        (tmp_path / LEDGER).write_text("{")
        third = Pool(name="p3", hosts=("h3",), cores=2)
        assert not job.move({1: pools()[1], 2: third})
    (tmp_path / LEDGER).unlink()
    with ask(tmp_path, "b") as other:
        assert other.enter() == ""


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    with ask(tmp_path / "slots", "a") as job:
        shutil.rmtree(tmp_path / "slots")
        with pytest.raises(StoreUnavailableError, match="a folder for `slots`"):
            job.enter()
