"""Verified jobs: replicas that crash, hang and lie in every way, and replicas that are all right.

Each seed runs some faults against replicas without Spark, so that 27 seeds in a row run all that
there are. Then it bills on Spark without any fault, and every other seed once more with one of
them: 50 seeds in a row are 50 clean runs.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import Final

from harness.verified.billing import small_config, verify_billing, write_billing
from harness.verified.cases import Case, is_bill, judge, matrix, read_output, run_plain
from harness.verified.oracle import expected_bills, rows_by_bill
from holdfast.protocol.verification import Mode
from holdfast.verify.account import Account

USES_SPARK = True
DESCRIPTION = "verified jobs: crashes, hangs, lies of one replica or more; and none at all"
AT_ONCE: Final = 12
"""Faults that a seed tries without Spark."""


def run(seed: int) -> str:
    cases = matrix()
    Random(0).shuffle(cases)
    with tempfile.TemporaryDirectory(prefix="holdfast-verified-") as name:
        folder = Path(name)
        for at in range(AT_ONCE):
            case = cases[(seed * AT_ONCE + at) % len(cases)]
            account, expected = run_plain(case, folder / str(at), seed)
            judge(case, account, is_bill(expected))
        clean = _bill(Case(1, Mode.HYBRID), folder / "clean", seed)
        if clean.findings:
            raise AssertionError(f"nobody was wrong, and yet: {clean.text()}")
        said = f"{AT_ONCE} faults without Spark; none on Spark: verified in {clean.seconds:.0f} s"
        if seed % 2:
            return said
        case = cases[seed // 2 % len(cases)]
        account = _bill(case, folder / "faulty", seed)
    end = f"verified in {account.seconds:.0f} s" if account.is_verified else "refused"
    return f"{said}; {case}: {end}"


def _bill(case: Case, folder: Path, seed: int) -> Account:
    random = Random(seed)
    file = write_billing(
        folder / "job", meters=random.randint(3, 40), days=random.randint(1, 3), seed=seed
    )
    config = small_config(folder, faults=case.faults, mode=case.mode, verifiers=case.verifiers)
    account = verify_billing(file, config, folder, case.lies)

    def is_right(output: Path) -> bool:
        return rows_by_bill(read_output(output, "bills")) == expected_bills(folder / "job" / "data")

    judge(case, account, is_right)
    return account
