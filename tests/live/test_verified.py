"""Verified jobs with real verifiers and drivers on Spark: liars, kills, and signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.processes import spark_environment
from harness.verified.billing import small_config, steps_of, verify_billing, write_billing
from harness.verified.cases import read_output
from harness.verified.holds import Hold, Seen, holds_for
from harness.verified.lies import Lie, Wrong
from harness.verified.oracle import expected_bills, rows_by_bill
from harness.waiting import wait_for
from holdfast.verify.machine import Kind, Run


def test_a_liar_and_a_killed_driver_change_nothing(tmp_path: Path) -> None:
    """Four replicas, one fault in each stage: one lies in the first, one is killed in the next, one
    tries to spoil the files of all others in the last."""
    file = write_billing(tmp_path / "job", meters=12)
    lies = [
        Lie(1, "hourly", Wrong.VALUE),
        Lie(2, "charges", Wrong.CRASH),
        Lie(3, "bills", Wrong.REWRITE, sticky=True),
    ]
    # The outvoted one is there to read what the others have, and needed.
    reads = Seen(1, "charges", verified=True)
    holds = [*holds_for(lies, range(1, 5)), *(Hold(n, "charges", reads) for n in (3, 4))]
    account = verify_billing(file, small_config(tmp_path, linger=0.0), tmp_path, lies, holds)
    assert account.is_verified, account.text()
    assert set(account.runs.values()) == {Run()}
    found = {(each.replica, each.kind) for each in account.findings}
    assert found == {(1, Kind.OUTVOTED), (2, Kind.MISSING)}
    assert account.pools[2] == ("pool 2", "pool 5")
    assert account.output is not None
    bills = rows_by_bill(read_output(account.output, "bills"))
    assert bills == expected_bills(tmp_path / "job" / "data")
    read = [each for step in steps_of(account, 1, "charges") for each in step["inputs"]["hourly"]]
    redirected = [each for each in read if each["verified"]]
    assert redirected
    assert all(each["replica"] != 1 for each in redirected)
    assert all(f"/{each['replica']}/hourly/" in each["path"] for each in redirected)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_end_leaves_no_process_behind(number: signal.Signals, tmp_path: Path) -> None:
    file = write_billing(tmp_path / "job", meters=4, days=1)
    command = [
        *(sys.executable, "-m", "holdfast", "verify", str(file), "--allow-shared-hosts"),
        *("--model", "crash", "--output", str(tmp_path / "out")),
        *("--storage", str(tmp_path / "storage"), "--work", str(tmp_path / "work")),
    ]
    process = subprocess.Popen(
        command,
        env=spark_environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        wait_for(lambda: f"{started_for(tmp_path)}", lambda: len(started_for(tmp_path)) >= 6, 120)
        process.send_signal(number)
        said, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    if number is signal.SIGKILL:
        assert process.returncode == -number
    else:
        assert process.returncode == 1
        assert "was ended before its end" in said
    wait_for(lambda: f"{started_for(tmp_path)}", lambda: not started_for(tmp_path), 60)
    assert not (tmp_path / "out").exists()


def started_for(folder: Path) -> list[str]:
    """Processes of a job in this folder: the coordinator, its verifier, drivers, their JVMs."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/environ").read_text(errors="replace")
            command = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        if f"TMPDIR={folder}" in words and command:
            found.append(command[:200])
    return found


def test_without_hosts_a_job_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1]}), tmp_path / "n.parquet")
    file = tmp_path / "job.sql"
    file.write_text(
        "CREATE TEMPORARY VIEW n USING parquet OPTIONS (path 'n.parquet');"
        "CREATE TEMPORARY VIEW m AS SELECT max(n) AS n FROM n;"
    )
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "verify", str(file)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "give as many [[pools]] in a --config, or --allow-shared-hosts" in done.stderr
