from __future__ import annotations

import math
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.topology import Mqtt, Party, PartyKind, Push, Span, Stage, Stream, Topology
from tests.pipeline.topology.builders import changed, fleet, in_file, in_python


def test_a_file_and_python_give_the_same(tmp_path: Path) -> None:
    assert in_file(fleet(), tmp_path) == in_python(fleet())


def test_values_are_kept_as_they_are_used() -> None:
    topology = in_python(fleet())
    clean, means = topology.stages["clean"], topology.stages["means"]
    assert topology.bucket == 500_000
    assert (clean.max_delay, clean.heartbeat, clean.missed) == (4_000_000, 100_000, 3)
    assert topology.stages["pairs"].max_delay == float("inf")
    assert means.replicas[1].host == "edge"
    assert means.window is not None
    assert [aggregate.name for aggregate in means.window.aggregates] == ["n", "mean"]
    assert dict(topology.streams["readings"].source.schema) == {
        "sensor": "string",
        "value": "double",
    }


def test_spans_of_time_are_also_taken_as_timedeltas() -> None:
    raw = changed("bucket", timedelta(milliseconds=250))
    assert in_python(raw).bucket == Span(250_000)


@pytest.mark.parametrize(
    ("source", "idle", "silence"),
    [
        ("mqtt", None, 60_000_000),
        ("mqtt", "90s", 90_000_000),
        ("mqtt", "forever", math.inf),
        ("push", None, math.inf),
        ("push", "10s", 10_000_000),
    ],
)
def test_silence_counts_where_the_source_knows_it_or_somebody_says_so(
    source: str, idle: str | None, silence: float
) -> None:
    schema = {"at": "timestamp", "value": "double"}
    broker = Mqtt("127.0.0.1:1883", ["a"], schema)
    stream = Stream(
        broker if source == "mqtt" else Push(schema), "127.0.0.1:1", time="at", idle=idle
    )
    assert stream.silence == silence
    assert replace(stream, time=None, idle=None).silence == math.inf


def test_the_name_of_a_file_is_that_of_its_topology(tmp_path: Path) -> None:
    raw = fleet()
    del raw["name"]
    topology = in_file(raw, tmp_path)
    assert topology.name == "fleet"
    assert topology.state_folder == tmp_path / "fleet-state"


def test_paths_begin_at_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path)
    in_file(changed("folder", "state"), tmp_path / "inner")
    topology = Topology.read("inner/fleet.toml")
    monkeypatch.chdir("/")
    assert topology.state_folder == tmp_path / "inner" / "state"
    assert topology.path("archive") == tmp_path / "inner" / "archive"
    assert topology.path("/elsewhere") == Path("/elsewhere")


def test_parties() -> None:
    parties = in_python(fleet()).parties()
    assert list(parties) == [
        "readings",
        "others",
        "clean/1",
        "clean/2",
        "means/1",
        "means/2",
        "pairs/1",
        "archive",
        "table",
    ]
    assert parties["readings"] == Party(
        "readings", PartyKind.SOURCE, "readings", "127.0.0.1:7001", "127.0.0.1"
    )
    assert parties["means/2"] == Party(
        "means/2", PartyKind.REPLICA, "means", "127.0.0.1:7202", "edge"
    )
    assert parties["archive"] == Party("archive", PartyKind.SINK, "archive", None, "127.0.0.1")


def test_a_sink_runs_beside_the_first_replica_of_its_stream() -> None:
    raw = changed("stages", "means", "replicas", [{"address": "127.0.0.1:7201", "host": "edge"}])
    assert in_python(raw).parties()["archive"].host == "edge"
    raw["sinks"]["archive"]["host"] = "store"
    assert in_python(raw).parties()["archive"].host == "store"


def test_who_publishes_and_who_reads() -> None:
    topology = in_python(fleet())
    assert topology.publishers("readings") == ("readings",)
    assert topology.publishers("clean") == ("clean/1", "clean/2")
    assert topology.readers("readings") == ("clean/1", "clean/2", "pairs/1")
    assert topology.readers("clean") == ("means/1", "means/2", "pairs/1", "table")
    assert topology.readers("pairs") == ()


def test_peers() -> None:
    topology = in_python(fleet())
    assert topology.peers("clean/1") == ("clean/2",)
    assert topology.peers("pairs/1") == ()
    assert topology.peers("readings") == topology.peers("archive") == ()


def test_how_far_back_state_depends() -> None:
    topology = in_python(fleet())
    assert topology.span("clean") == 0
    assert topology.span("means") == 60_000_000
    assert topology.span("pairs") == 10_000_000
    assert topology.horizon("readings") == topology.horizon("clean") == 60_000_000
    assert topology.horizon("means") == 0


def test_a_stage_may_join_and_have_a_window() -> None:
    window = {"window": {"size": "1m", "aggregates": ["count()"]}}
    assert in_python(changed("stages", "pairs", "steps", 1, window)).span("pairs") == 70_000_000


def test_order_and_layers() -> None:
    topology = in_python(fleet())
    assert topology.order() == ("clean", "means", "pairs")
    assert topology.layers() == [
        ["readings", "others"],
        ["clean"],
        ["means", "pairs"],
        ["table", "archive"],
    ]


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("publishers", "archive"),
        ("publishers", "clean/1"),
        ("readers", "cleen"),
        ("horizon", ""),
        ("span", "readings"),
        ("peers", "clean"),
        ("peers", "clean/3"),
        ("peers", "clean/0"),
        ("peers", "readings/1"),
        ("peers", "nobody"),
    ],
)
def test_names_that_are_not_there_are_refused(method: str, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"there is no '{name}' .*; give "):
        getattr(in_python(fleet()), method)(name)


def test_a_topology_never_changes() -> None:
    topology = in_python(fleet())
    with pytest.raises(FrozenInstanceError):
        topology.name = "other"
    with pytest.raises(FrozenInstanceError):
        topology.stages["clean"].shards = 3
    with pytest.raises(TypeError):
        topology.stages["clean"] = Stage()
    given = {"readings": Stream(Push({"a": "int"}), "127.0.0.1:7001")}
    topology = Topology(name="x", bucket="1s", streams=given)
    given.clear()
    assert list(topology.streams) == ["readings"]


def test_a_changed_copy_is_checked_again() -> None:
    topology = in_python(fleet())
    assert replace(topology, name="other").stages == topology.stages
    with pytest.raises(InvalidArgumentError, match="less than two buckets"):
        replace(topology, bucket="3s")


def test_topologies_can_be_hashed_and_sent() -> None:
    topology = in_python(fleet())
    assert pickle.loads(pickle.dumps(topology)) == topology
    assert hash(in_python(fleet())) == hash(topology)


def test_the_error_can_be_sent_too() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Topology()
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_importing_it_is_cheap() -> None:
    script = "import holdfast.pipeline.topology, sys; print(*sys.modules, sep='\\n')"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    loaded = {name.partition(".")[0] for name in ended.stdout.split()}
    assert loaded & {"pyspark", "pyarrow", "pandas", "numpy", "rich", "matplotlib"} == set()
