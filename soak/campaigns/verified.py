"""Verified jobs: replicas that crash, hang and lie in every way, and replicas that are all right.

Each seed tries some faults against replicas without Spark, so that 41 seeds in a row try all that
there are. On Spark it runs four jobs:

- many cities are billed and nobody is wrong: five seeds are 50 clean runs of a job with a join,
  group-by and sums of floating-point numbers. Replicas have different cores, partitions and plans.
  Meanwhile its verifier is flooded by callers that do not know its token, and must not grow.
- many cities are billed and as many replicas are wrong as may be, in another way or at another
  stage in each city: six seeds in a row are all ways, stages, modes and both numbers of faults.
- many cities are billed and one replica more is wrong than may be, once at each stage: what too few
  agree on is computed again, and the bills are right. Four seeds in a row are all of it.
- one city is billed and more replicas are wrong than may be, again and again, or as many hang: the
  job goes right, or fails and says who disagreed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

from harness.floods import Flooding
from harness.verified.billing import (
    STAGES,
    is_city_right,
    small_config,
    verify_billing,
    write_cities,
)
from harness.verified.cases import Case, is_bill, judge, matrix, run_plain
from harness.verified.lies import HANGS, Lie, Wrong
from holdfast.verify.machine import Mode
from holdfast.verify.process.report import Account

USES_SPARK = True
DESCRIPTION = "verified jobs: crashes, hangs, lies of one replica or more; and none at all"
AT_ONCE: Final = 12
"""Faults that a seed tries without Spark."""
CLEAN: Final = 10
"""Cities that a seed bills without faults."""
TALKERS: Final = tuple(each for each in Wrong if each not in (*HANGS, Wrong.SOURCE))
"""What a replica can do wrong so that the job goes on."""
PASSING: Final = tuple(each for each in TALKERS if each is not Wrong.SEQUENCE)
"""What so many replicas as cannot all be liars can do wrong without using up the retries."""
PLANS: Final = {
    1: {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "7"},
    2: {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "3"},
    3: {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.files.maxPartitionBytes": "16384"},
    4: {"spark.sql.codegen.wholeStage": "false", "spark.default.parallelism": "5"},
}
"""Settings by which replicas come to the same rows in other ways."""


def run(seed: int) -> str:
    cases = matrix()
    Random(0).shuffle(cases)
    with tempfile.TemporaryDirectory(prefix="holdfast-verified-") as name:
        folder = Path(name)
        for at in range(AT_ONCE):
            case = cases[(seed * AT_ONCE + at) % len(cases)]
            account, expected = run_plain(case, folder / str(at), seed)
            judge(case, account, is_bill(expected))
        shared = case_on_shared_storage(seed)
        account, expected = run_plain(shared, folder / "shared", seed)
        judge(shared, account, is_bill(expected))
        with Flooding(folder / "clean") as flooding:
            clean = bill_cities(Case(1, Mode.HYBRID), CLEAN, folder / "clean", seed)
        if not flooding.floods:
            raise AssertionError("the verifiers of the job were not flooded")
        if clean.findings:
            raise AssertionError(f"nobody was wrong, and yet: {clean.text()}")
        within, beyond = case_within(seed), case_beyond(seed)
        lied = bill_cities(within, len(TALKERS) * len(STAGES), folder / "within", seed)
        mended = bill_cities(beyond, len(PASSING) * len(STAGES), folder / "beyond", seed)
        if not mended.is_verified:
            raise AssertionError(f"{beyond}: all were right the second time: {mended.text()}")
        others = [case for case in cases if len(case.liars) > case.faults or _hangs(case)]
        case = _in_city(others[seed % len(others)], 0)
        ended = bill_cities(case, 1, folder / "one", seed)
    return (
        f"{AT_ONCE} faults without Spark, one where all can write, {_end(account)}; "
        f"on Spark {CLEAN} cities without faults, "
        f"{flooding.floods} floods, {_end(clean)}; "
        f"{_lies_of(within)}, {_end(lied)}; {_lies_of(beyond)}, {_end(mended)}; "
        f"{case}: {_end(ended)}"
    )


def case_on_shared_storage(seed: int) -> Case:
    """One that spoils the files of all: it may end the job, but nobody is accused for it."""
    lie = Lie(seed % 4 + 1, STAGES[seed // 4 % len(STAGES)], Wrong.REWRITE, sticky=True)
    return Case(1, list(Mode)[seed % len(Mode)], (lie,), confine=False)


def case_within(seed: int) -> Case:
    """As many liars as may be, who are wrong in another way or at another stage in each city."""
    faults, modes = 1 + seed % 2, list(Mode)
    lies = _lies_in_cities(seed, faults, faults, TALKERS, sticky=True)
    # Who says two things says them to different verifiers.
    return Case(faults, modes[seed // 2 % len(modes)], lies, verifiers=3)


def case_beyond(seed: int) -> Case:
    """One liar more, and each is wrong once in each city. In mode non-blocking the whole job would
    be begun again for each."""
    faults, modes = 1 + seed % 2, (Mode.HYBRID, Mode.BLOCKING)
    lies = _lies_in_cities(seed, faults, faults + 1, PASSING, sticky=False)
    return Case(faults, modes[seed // 2 % len(modes)], lies, verifiers=3)


def _lies_in_cities(
    seed: int, faults: int, count: int, ways: Sequence[Wrong], *, sticky: bool
) -> tuple[Lie, ...]:
    replicas = 3 * faults + 1
    liars = [(seed + at) % replicas + 1 for at in range(count)]
    wrongs = [(wrong, stage) for wrong in ways for stage in STAGES]
    Random(seed).shuffle(wrongs)
    return tuple(
        # One that crashes for ever at the same place would not come to the others.
        Lie(liar, f"{stage}_{city}", wrong, sticky=sticky and wrong is not Wrong.CRASH, alike=True)
        for city, (wrong, stage) in enumerate(wrongs)
        for liar in liars
    )


def bill_cities(case: Case, count: int, folder: Path, seed: int) -> Account:
    """Verified or not, the account has been judged."""
    file = write_cities(folder / "job", count, Random(seed))
    crashes = sum(lie.wrong is Wrong.CRASH for lie in case.lies)
    config = small_config(
        folder,
        faults=case.faults,
        mode=case.mode,
        verifiers=case.verifiers,
        restarts=1 + crashes,
        linger=5.0 if _hangs(case) else 60.0,
        spark=PLANS,
    )
    account = verify_billing(file, config, folder, case.lies)
    judge(case, account, _are_right(file, count))
    return account


def _are_right(file: Path, count: int) -> Callable[[Path], bool]:
    return lambda output: all(is_city_right(file, output, each) for each in range(count))


def _hangs(case: Case) -> bool:
    return any(lie.wrong in HANGS for lie in case.lies)


def _in_city(case: Case, city: int) -> Case:
    lies = tuple(
        Lie(lie.replica, f"{lie.stage}_{city}", lie.wrong, sticky=lie.sticky, alike=lie.alike)
        for lie in case.lies
    )
    return Case(case.faults, case.mode, lies, case.verifiers)


def _lies_of(case: Case) -> str:
    return (
        f"{len(case.lies)} lies of {len(case.liars)} in {3 * case.faults + 1} replicas, {case.mode}"
    )


def _end(account: Account) -> str:
    return f"verified in {account.seconds:.0f} s" if account.is_verified else "refused"
