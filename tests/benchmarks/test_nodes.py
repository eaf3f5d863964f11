from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from benchmarks.nodes.backlog import BUCKETS, FILES, SECOND, Backlog, write_backlog
from benchmarks.nodes.hops import Hops, per_hop
from benchmarks.nodes.queries import QUERIES
from benchmarks.nodes.rates import Batch, Rate, batches_between, ratio_of, topology_text
from benchmarks.nodes.scale import FULL, QUICK, SMOKE, chosen_scale
from benchmarks.processes import usage_of
from holdfast.pipeline.topology import Topology

BACKLOG = Backlog(batches=2, rows_per_bucket=8)


def test_a_batch_of_files_has_the_buckets_of_a_batch_of_a_replica(tmp_path: Path) -> None:
    write_backlog(tmp_path / "rows", BACKLOG)
    files = sorted((tmp_path / "rows").iterdir())
    assert len(files) == BACKLOG.batches * FILES
    assert sorted(files, key=lambda file: file.stat().st_mtime) == files
    for batch in range(BACKLOG.batches):
        some = files[batch * FILES : (batch + 1) * FILES]
        table = pa.concat_tables([pyarrow.parquet.read_table(file) for file in some])
        assert len(table) == BACKLOG.rows_per_batch
        times = table["at"].cast(pa.int64()).to_numpy()
        assert (times[1:] >= times[:-1]).all()
        start = BACKLOG.start + batch * BACKLOG.span
        assert start <= times[0]
        assert times[-1] < start + BACKLOG.span
    assert BACKLOG.end == BACKLOG.start + BACKLOG.batches * BUCKETS * SECOND


def test_the_topology_has_a_stage_for_each_query(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    file = tmp_path / "backlog.toml"
    file.write_text(topology_text(tmp_path / "rows"))
    topology = Topology.read(file)
    assert list(topology.stages) == [query.name for query in QUERIES]
    assert len(topology.readers("readings")) == len(QUERIES)


def test_batches_that_warm_up_do_not_count() -> None:
    start, span = BACKLOG.start, BACKLOG.span
    passed = [
        (10.0, start + span // 2),
        (11.0, start + span),
        (11.5, start + 3 * span // 2),
        (13.0, start + 2 * span),
    ]
    half = BACKLOG.rows_per_batch / 2
    assert batches_between(passed, BACKLOG, 1) == [Batch(half, 0.5), Batch(half, 1.5)]
    assert len(batches_between(passed, BACKLOG, 0)) == 3


def test_a_rate_is_of_all_measured_batches() -> None:
    rate = Rate.of([Batch(100, 1.0), Batch(300, 1.0)], cpu=2.0, rows=500_000)
    assert rate == Rate(rows_per_second=200, cpu=4.0)


def test_rates_are_compared_round_by_round() -> None:
    mine, theirs = [Rate(50, 0), Rate(90, 0)], [Rate(100, 0), Rate(100, 0)]
    spread = ratio_of(mine, theirs)
    assert (spread.median, spread.low, spread.high) == pytest.approx((0.7, 0.5, 0.9))


def test_a_hop_costs_what_a_longer_chain_adds() -> None:
    chains = [Hops(n, 1, 0.3 * n, 0.5 * n, 1.0, 60, 0.4 * n, 0) for n in (1, 2, 3)]
    assert per_hop(chains) == [pytest.approx((0.3, 0.5))] * 2


def test_what_children_use_counts() -> None:
    work = "import sys; sum(range(20_000_000)); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        before = usage_of(os.getpid())
        child.stdout.readline()
        alone, both = usage_of(child.pid), usage_of(os.getpid())
        child.stdin.close()
    assert alone.processes == 1
    assert both.processes == before.processes >= 2
    assert 0 < alone.cpu < both.cpu
    assert 2**20 < alone.resident < both.resident


def test_the_environment_chooses_the_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_BENCH", raising=False)
    assert chosen_scale() is FULL
    for name, scale in {"quick": QUICK, "smoke": SMOKE}.items():
        monkeypatch.setenv("HOLDFAST_BENCH", name)
        assert chosen_scale() is scale
