"""`holdfast verify` with replicas that may lie: `python -m benchmarks.verified.submit PARTS FILE
FOLDER MODE`, where PARTS say who does what wrong."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from benchmarks.verified.runs import SETTINGS
from harness.verified.billing import small_config, verify_billing
from harness.verified.holds import Parts
from holdfast.verify.machine import Mode
from holdfast.verify.process.config import Need

WAIT: Final = 600.0
"""Seconds: on this machine all are slow, and nobody hangs."""


def main(arguments: list[str]) -> None:
    parts, file, folder = map(Path, arguments[:3])
    given = Parts.read(parts)
    # Without faults all come to their end, as copies do; else some never would.
    linger = 0.0 if given.lies else 60.0
    config = replace(
        small_config(folder, mode=Mode(arguments[3]), linger=linger),
        patience=WAIT,
        limit=WAIT,
        replica=Need(cores=1, memory=SETTINGS["spark.driver.memory"]),
        spark=SETTINGS,
    )
    account = verify_billing(file, config, folder, given.lies, given.holds, dict(os.environ))
    assert account.is_verified, account.text()


if __name__ == "__main__":
    main(sys.argv[1:])
