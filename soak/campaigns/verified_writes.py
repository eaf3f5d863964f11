"""Verified jobs on Spark whose sources a replica rewrites, and programs that write.

Even seeds bill a city while one replica, which is not confined, rewrites its sources in place, with
as many bytes and the same time. Odd seeds run a program in which one replica lies: every other one
writes in its replicas too, before its last boundary or behind it, which must be refused with
nothing written.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import Final

from harness.verified.billing import (
    STAGES,
    is_city_right,
    read_nightly,
    small_config,
    verify_billing,
    write_cities,
    write_nightly,
)
from harness.verified.cases import Case, judge
from harness.verified.lies import Lie, Wrong
from holdfast.verify.machine import Mode

USES_SPARK = True
DESCRIPTION = "verified jobs on Spark: sources that a replica rewrites, and programs that write"
LIES: Final = (Wrong.VALUE, Wrong.COUNT, Wrong.DATA, Wrong.CRASH)


def run(seed: int) -> str:
    with tempfile.TemporaryDirectory(prefix="holdfast-writes-") as name:
        return rewrite(seed, Path(name)) if seed % 2 == 0 else write(seed, Path(name))


def rewrite(seed: int, folder: Path) -> str:
    """Nothing wrong is delivered, and if the job ends the source is named."""
    random = Random(seed)
    stage, mode = random.choice(STAGES), random.choice(list(Mode))
    case = Case(1, mode, (Lie(random.randint(1, 4), f"{stage}_0", Wrong.SOURCE),))
    file = write_cities(folder / "job", 1, random)
    # What is right goes by the sources as they were.
    before = {path: path.read_bytes() for path in file.parent.rglob("*.csv")}
    config = small_config(folder, mode=mode).override({"confine": False})
    account = verify_billing(file, config, folder, case.lies)
    for path, data in before.items():
        path.write_bytes(data)
    judge(case, account, lambda output: is_city_right(file, output, 0))
    return f"{case}: {'verified' if account.is_verified else 'refused'}"


def write(seed: int, folder: Path) -> str:
    random = Random(seed)
    file, expected = write_nightly(folder / "job")
    place = folder / "most"
    wrong, is_plain = random.choice(LIES), seed % 4 == 3
    lies = [] if is_plain else [Lie(random.randint(1, 4), "sums", wrong)]
    config = small_config(folder, mode=random.choice(list(Mode)))
    way = {7: "--late", 15: "--open"}.get(seed % 16, "--plain")
    arguments = [str(place), way] if is_plain else [str(place)]
    account = verify_billing(file, config, folder, lies, arguments=arguments)
    if is_plain:
        said = "Permission denied" if way == "--open" else "verified_write("
        assert said in (account.failure or account.refused), account.text()
        assert not Path(f"{place}-late").exists(), "a replica has written"
        assert place.exists() is account.is_verified, "a replica has written"
        assert way != "--plain" or not account.is_verified, account.text()
        return "a program that writes in its replicas: refused"
    assert account.is_verified, account.text()
    assert read_nightly(place) == expected
    return f"a program with {wrong} of replica {lies[0].replica}: written once"
