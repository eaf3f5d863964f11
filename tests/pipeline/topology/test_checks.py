"""Every rule of a topology, broken alone: in a file and in Python it is told alike."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from holdfast.pipeline.topology import Replica, Stage, Topology, TopologyError
from tests.pipeline.topology.builders import (
    GONE,
    changed,
    fleet,
    in_file,
    in_python,
    problems_in_file,
    problems_in_python,
)

STREAM = ("streams", "readings")
STAGE = ("stages", "clean")
WINDOW = ("stages", "means", "steps", 1, "window")
JOIN = ("stages", "pairs", "steps", 0, "join")
OUTSIDE = "10.0.0.5:7001"
COMPLETE = {"token_file": "t", "certificate": "c", "key": "k", "authority": "a"}

BROKEN: list[tuple[tuple[Any, ...], str, str]] = [
    # Fields by themselves: the change, where it is told, what is told.
    (("name", "Fleet 1"), "name", "is not a name; begin with a letter"),
    (("name", 7), "name", "7 is not a name"),
    (("bucket", GONE), "bucket", 'is missing; give an interval, such as bucket = "500ms"'),
    (("bucket", 500), "bucket", "500 is no interval"),
    (("bucket", "1 fortnight"), "bucket", "'fortnight'"),
    (("bucket", "10us"), "bucket", "10us is too short; give at least 1ms"),
    (("bucket", math.nan), "bucket", "nan is no interval"),
    (("folder", ""), "folder", "is empty"),
    (("folder", "a\tb"), "folder", "cannot be printed"),
    (("streams", {}), "streams", "there is none; add one as [streams.NAME]"),
    (("streams", 3), "streams", "3 is not tables by their names"),
    (("stages", [1]), "stages", "[1] is not tables by their names"),
    (("security", True), "security", "true is not a table"),
    ((*STREAM, 5), "[streams.readings]", "5 is no table; give one with source, address"),
    (
        ("streams", "a b", {"source": "rate", "rows_per_second": 1, "address": "127.0.0.1:9"}),
        "[streams.a b]",
        "'a b' is not a name",
    ),
    (
        ("streams", "A", {"source": "rate", "rows_per_second": 1, "address": "127.0.0.1:9"}),
        "[streams.A]",
        "'A' is not a name",
    ),
    (
        (*STREAM, "source", "kafka"),
        "[streams.readings] source",
        "'kafka' is no source; give one of files, rate, sensors, mqtt, edge, push",
    ),
    ((*STREAM, "source", "pusj"), "[streams.readings] source", "did you mean 'push'?"),
    ((*STREAM, "source", GONE), "[streams.readings] source", "is missing"),
    ((*STREAM, "address", GONE), "[streams.readings] address", "is missing; give an address"),
    ((*STREAM, "address", "7001"), "[streams.readings] address", "write host:port"),
    ((*STREAM, "address", "127.0.0.1:0"), "[streams.readings] address", "from 1 to 65535"),
    ((*STREAM, "address", "127.0.0.1:65536"), "[streams.readings] address", "from 1 to 65535"),
    ((*STREAM, "schema", {}), "[streams.readings] schema", "has no columns"),
    ((*STREAM, "schema", "sensor string"), "[streams.readings] schema", "is not a schema"),
    ((*STREAM, "schema", {"STIME": "timestamp"}), "[streams.readings] schema.STIME", "reserved"),
    ((*STREAM, "schema", {"a": "int", "A": "int"}), "[streams.readings] schema", "twice"),
    ((*STREAM, "schema", {"a": "strin"}), "[streams.readings] schema.a", "did you mean 'string'?"),
    ((*STREAM, "retain", "0s"), "[streams.readings] retain", "too short"),
    ((*STREAM, "host", "a/b"), "[streams.readings] host", "is not a host"),
    (("streams", "others", "path", GONE), "[streams.others] path", "is missing; give a text"),
    (
        ("streams", "others", "format", "xml"),
        "[streams.others] format",
        "give one of parquet, csv, jsonl",
    ),
    (("streams", "others", "pace", math.inf), "[streams.others] pace", "inf is out of range"),
    (("streams", "others", "pace", math.nan), "[streams.others] pace", "nan is out of range"),
    (("streams", "others", "pace", True), "[streams.others] pace", "true is not a number above 0"),
    (("streams", "others", "follow", 1), "[streams.others] follow", "1 is not true or false"),
    (
        (*STAGE, "inputs", "readings"),
        "[stages.clean] inputs",
        "'readings' is not a list of names; give a list of names, such as inputs = [\"readings\"]",
    ),
    ((*STAGE, "inputs", []), "[stages.clean] inputs", "is empty"),
    ((*STAGE, "inputs", [["readings"]]), "[stages.clean] inputs #1", "is not a text"),
    ((*STAGE, "inputs", ["others", "others"]), "[stages.clean] inputs", "'others' 2 times"),
    ((*STAGE, "replicas", []), "[stages.clean] replicas", "is empty"),
    ((*STAGE, "replicas", 1, 5), "[stages.clean] replicas #2", "5 is no table; give one with addr"),
    ((*STAGE, "replicas", 1, {"host": "b"}), "[stages.clean] replicas #2 address", "is missing"),
    ((*STAGE, "policy", "Switch"), "[stages.clean] policy", "did you mean 'switch'?"),
    ((*STAGE, "shards", 0), "[stages.clean] shards", "0 is out of range"),
    ((*STAGE, "shards", True), "[stages.clean] shards", "true is not a whole number from 1 on"),
    ((*STAGE, "shards", 2.0), "[stages.clean] shards", "2.0 is not a whole number"),
    ((*STAGE, "shards", 1 << 63), "[stages.clean] shards", "is out of range"),
    ((*STAGE, "missed", 0), "[stages.clean] missed", "0 is out of range"),
    ((*STAGE, "heartbeat", "1us"), "[stages.clean] heartbeat", "at least 1ms"),
    ((*STAGE, "max_delay", "never"), "[stages.clean] max_delay", "cannot be read"),
    ((*STAGE, "max_delay", "-4s"), "[stages.clean] max_delay", "-4s is too short"),
    ((*STAGE, "steps", {"where": "a"}), "[stages.clean] steps", "is not a list of steps"),
    ((*STAGE, "steps", 0, "where"), "[stages.clean] steps #1", "'where' is no step; give a table"),
    ((*STAGE, "steps", 0, {}), "[stages.clean] steps #1", "{} is no step"),
    ((*STAGE, "steps", 0, {"wher": "a"}), "[stages.clean] steps #1", "did you mean 'where'?"),
    (
        (*STAGE, "steps", 0, {"where": "a", "sql": "b"}),
        "[stages.clean] steps #1",
        "has where and sql; make steps of their own",
    ),
    (
        (*STAGE, "steps", 0, {"window": "1m"}),
        "[stages.clean] steps #1",
        "window is '1m'; give a table with size, aggregates, slide, keys",
    ),
    ((*STAGE, "steps", 0, {"where": 1}), "[stages.clean] steps #1 where", "1 is not an expression"),
    (
        (*STAGE, "steps", 0, {"function": "f", "schema": {"a": "int"}}),
        "[stages.clean] steps #1 function",
        "write module:function",
    ),
    ((*STAGE, "steps", 0, {"function": "m:f"}), "[stages.clean] steps #1 schema", "is missing"),
    (
        (*STAGE, "steps", 0, {"select": ["a", "rand()"]}),
        "[stages.clean] steps #1 select #2",
        "'rand' differs between replicas",
    ),
    ((*WINDOW, "size", GONE), "[stages.means] steps #2 window.size", "is missing"),
    ((*WINDOW, "size", "0s"), "[stages.means] steps #2 window.size", "too short"),
    ((*WINDOW, "aggregates", []), "[stages.means] steps #2 window.aggregates", "is empty"),
    (
        (*WINDOW, "aggregates", 1, "avg(twice)"),
        "[stages.means] steps #2 window.aggregates #2",
        "did you mean 'mean'?",
    ),
    ((*WINDOW, "keys", ["stime"]), "[stages.means] steps #2 window.keys #1", "reserved"),
    ((*JOIN, "within", GONE), "[stages.pairs] steps #1 join.within", "is missing"),
    (("sinks", "archive", "sink", "csv"), "[sinks.archive] sink", "give one of parquet, delta"),
    (("sinks", "archive", "path", GONE), "[sinks.archive] path", "is missing"),
    (("sinks", "table", "url", "secret"), "[sinks.table] url", "this is not the URL"),
    (("sinks", "table", "keys", "sensor"), "[sinks.table] keys", "is not a list of columns"),
    # Names.
    (
        ("sinks", "clean", {"stream": "clean", "sink": "console"}),
        "[sinks.clean]",
        "the name is taken by [stages.clean]; choose another",
    ),
    (
        ("stages", "readings", {"inputs": ["others"], "replicas": ["127.0.0.1:9"]}),
        "[stages.readings]",
        "the name is taken by [streams.readings]",
    ),
    # Addresses and security.
    (
        (*STREAM, "address", "127.0.0.1:7101"),
        "[stages.clean] replicas #1",
        "'127.0.0.1:7101' is served by [streams.readings] already; give another port",
    ),
    ((*STREAM, "address", "localhost:7002"), "[streams.others] address", "is served by"),
    (
        (*STREAM, "address", OUTSIDE),
        "[streams.readings] address",
        "can be reached by other machines; add [security]",
    ),
    (
        (*STAGE, "replicas", 0, "edge.example:7101"),
        "[stages.clean] replicas #1",
        "can be reached by other machines",
    ),
    (("security", {}), "[security] token_file", "is missing; give it or token_env, or leave"),
    (
        ("security", {"token_file": "t", "token_env": "T"}),
        "[security] token_env",
        "token_file is given too",
    ),
    (("security", {"token_env": "a secret!"}), "[security] token_env", "this is not the name"),
    (
        ("security", {"certificate": "c", "key": "k"}),
        "[security] authority",
        "is missing; give it, since the others are of no use without it",
    ),
    # Streams.
    (
        (
            *STREAM,
            {
                "source": "mqtt",
                "broker": "127.0.0.1:1883",
                "topics": ["a"],
                "address": "127.0.0.1:1",
                "schema": {"at": "timestamp"},
                "time": "at",
                "idle": "44s",
            },
        ),
        "[streams.readings] idle",
        "give at least 45s",
    ),
    ((*STREAM, "idle", "1m"), "[streams.readings] idle", "leave it out, or give time"),
    ((*STREAM, "lateness", "1s"), "[streams.readings] lateness", "leave it out, or give time"),
    (
        (*STREAM, "time", "measured_at"),
        "[streams.readings] time",
        'add measured_at = "timestamp" to schema',
    ),
    ((*STREAM, "time", "value"), "[streams.readings] time", "'value' is of type double"),
    (
        (
            "streams",
            "q",
            {
                "source": "mqtt",
                "broker": "127.0.0.1:1883",
                "topics": ["a/#"],
                "address": "127.0.0.1:9",
                "schema": {"a": "int"},
                "password_env": "P",
            },
        ),
        "[streams.q] password_env",
        "without username",
    ),
    (
        (
            "streams",
            "q",
            {
                "source": "mqtt",
                "broker": "127.0.0.1:1883",
                "topics": ["a/#/b"],
                "address": "127.0.0.1:9",
                "schema": {"a": "int"},
            },
        ),
        "[streams.q] topics #1",
        "'a/#/b' is no filter of topics",
    ),
    # Inputs and cycles.
    (
        (*STAGE, "inputs", 0, "reading"),
        "[stages.clean] inputs #1",
        "there is no stream or stage 'reading' (did you mean 'readings'?",
    ),
    ((*STAGE, "inputs", ["archive"]), "[stages.clean] inputs #1", "'archive' is a sink"),
    ((*STAGE, "inputs", ["clean"]), "[stages.clean] inputs", "in a circle (clean <- clean)"),
    ((*STAGE, "inputs", ["readings", "means"]), "[stages.", "in a circle ("),
    (("sinks", "archive", "stream", "mean"), "[sinks.archive] stream", "did you mean 'means'?"),
    (("sinks", "archive", "stream", "table"), "[sinks.archive] stream", "'table' is a sink"),
    # Policies and spans.
    ((*STAGE, "faults", 2), "[stages.clean] faults", "is of no use with the policy 'switch'"),
    ((*STAGE, "every", 5), "[stages.clean] every", "leave it out, or use 'sample'"),
    ((*STAGE, "barrier", "1s"), "[stages.clean] barrier", "is of no use with the policy 'switch'"),
    ((*STAGE, "proofs", 1), "[stages.clean] proofs", "or use 'vote', 'vote-latest', 'sample'"),
    ((*STAGE, "proofs", 0), "[stages.clean] proofs", "0 is out of range"),
    ((*STAGE, "room", 8), "[stages.clean] room", "leave it out, or use 'vote', 'vote-latest'"),
    ((*STAGE, "rest", "rate"), "[stages.clean] rest", "is of no use with the policy 'switch'"),
    ((*STAGE, "rest", "never"), "[stages.clean] rest", "'never' is not known"),
    (("sinks", "archive", "policy", "order"), "[sinks.archive] policy", "'order' is not known"),
    (("sinks", "archive", "policy", "vote"), "[sinks.archive] policy", "needs 4 replicas of each"),
    (("sinks", "archive", "every", 3), "[sinks.archive] every", "or use 'sample'"),
    ((*STAGE, "routing", "hash"), "[stages.clean] routing", "leave it out, or use 'share'"),
    (
        (*STAGE, "routing", "random"),
        "[stages.clean] routing",
        "give one of round-robin, hash, prim",
    ),
    ((*STAGE, "guarantee", "at-most-once"), "[stages.clean] guarantee", "or use 'share'"),
    (("sinks", "archive", "policy", "share"), "[sinks.archive] policy", "'share' is not known"),
    (
        ("stages", "pairs", "max_delay", "4s"),
        "[stages.pairs] max_delay",
        "is only for the policy 'switch', not 'order'; leave it out",
    ),
    (
        (*STAGE, "max_delay", "999ms"),
        "[stages.clean] max_delay",
        "999ms is less than two buckets of 500ms; give at least 1s",
    ),
    (
        (*STAGE, "heartbeat", "1s"),
        "[stages.clean] max_delay",
        "4s is less than the 5s after which a failed replica is noticed",
    ),
    (
        (*STREAM, "retain", "64s"),
        "[streams.readings] retain",
        "64s is too little for the stages downstream, with 4s of max_delay and 1m of windows and "
        "joins; give more than 64s",
    ),
    ((*STAGE, "retain", "1m"), "[stages.clean] retain", "give more than 64s"),
    # Steps and columns.
    (
        ("stages", "pairs", "inputs", ["clean"]),
        "[stages.pairs] steps #1 join",
        "joins two inputs, and the stage has 1",
    ),
    (
        ("stages", "means", "steps", 2, {"join": {"keys": ["n"], "within": "1s"}}),
        "[stages.means] steps #3 join",
        "is not the first step",
    ),
    (
        ("stages", "means", "steps", 2, {"window": {"size": "1m", "aggregates": ["count()"]}}),
        "[stages.means] steps #3 window",
        "is the second one; put it into a stage of its own",
    ),
    ((*JOIN, "keys", []), "[stages.pairs] steps #1 join.keys", "is empty"),
    (
        (*JOIN, "keys", ["sensr"]),
        "[stages.pairs] steps #1 join.keys",
        "in 'clean' there is no column 'sensr' (did you mean 'sensor'?",
    ),
    ((*WINDOW, "slide", "2m"), "[stages.means] steps #2 window.slide", "2m is more than size, 1m"),
    (
        (*WINDOW, "keys", ["value"]),
        "[stages.means] steps #2 window.keys",
        "there is no column 'value'; there are sensor, twice",
    ),
    (
        (*WINDOW, "aggregates", 1, "mean(value)"),
        "[stages.means] steps #2 window.aggregates #2",
        "there is no column 'value'",
    ),
    (
        (*WINDOW, "aggregates", 1, "mean(twice) AS n"),
        "[stages.means] steps #2 window.aggregates #2",
        "there is a column 'n' already",
    ),
    (
        (*WINDOW, "aggregates", 1, "mean(twice) AS sensor"),
        "[stages.means] steps #2 window.aggregates #2",
        "there is a column 'sensor' already",
    ),
    (
        ("stages", "means", "steps", 0, {"select": ["sensr", "value AS twice"]}),
        "[stages.means] steps #1 select #1",
        "did you mean 'sensor'?",
    ),
    (
        ("stages", "means", "steps", 0, {"select": ["sensor", "value AS twice", "1 AS Twice"]}),
        "[stages.means] steps #1 select #3",
        "there is a column 'Twice' already",
    ),
    (
        ("stages", "means", "steps", 0, {"select": ["sensor", "1 AS twice", "now AS stime"]}),
        "[stages.means] steps #1 select #3",
        "reserved",
    ),
    (
        ("streams", "others", "schema", {"sensor": "string", "value": "float"}),
        "[stages.clean] inputs",
        "'others' has (sensor string, value float)",
    ),
    (
        ("streams", "others", "schema", {"value": "double", "sensor": "string"}),
        "[stages.clean] inputs",
        "in the same order",
    ),
    # Sinks.
    (
        ("sinks", "again", {"stream": "clean", "sink": "delta", "path": "./archive/"}),
        "[sinks.again] path",
        "is written by [sinks.archive] already; give another path",
    ),
    (
        (
            "sinks",
            "again",
            {"stream": "means", "sink": "sql", "url": "sqlite:///fleet.db", "table": "T"},
        ),
        "[sinks.again] table",
        "is written by [sinks.table] already",
    ),
    (
        ("sinks", "archive", "tentative", True),
        "[sinks.archive] tentative",
        "a sink of parquet takes final rows only",
    ),
    (("sinks", "table", "keys", ["sensr"]), "[sinks.table] keys", "did you mean 'sensor'?"),
]


@pytest.mark.parametrize(("change", "place", "says"), BROKEN)
def test_a_broken_rule_is_told_alike_in_a_file_and_in_python(
    change: tuple[Any, ...], place: str, says: str, tmp_path: Path
) -> None:
    raw = changed(*change)
    problems = problems_in_file(raw, tmp_path)
    told = [str(problem) for problem in problems if says in problem.message]
    assert told, [str(problem) for problem in problems]
    assert any(line.startswith(place) for line in told), told
    assert all("; " in problem.message for problem in problems), "a remedy is missing"
    assert sorted(map(str, problems_in_python(raw))) == sorted(map(str, problems))


def test_one_mistake_is_one_problem(tmp_path: Path) -> None:
    alone = [
        (*STREAM, "address", "7001"),
        ("bucket", "x"),
        (*STAGE, "replicas", 5),
        (*STAGE, "inputs", 0, "reading"),
        (*WINDOW, "aggregates", 1, "mean(value)"),
        (*STAGE, "max_delay", "never"),
        (*STREAM, "source", "kafka"),
        (*STREAM, 5),
    ]
    for change in alone:
        problems = problems_in_file(changed(*change), tmp_path)
        assert len(problems) == 1, (change, problems)


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    raw = fleet()
    raw["bucket"] = True
    raw["streams"]["readings"]["address"] = "nowhere"
    raw["stages"]["clean"]["policy"] = "vot"
    raw["stages"]["means"]["inputs"] = ["cleen"]
    raw["sinks"]["archive"]["colour"] = "red"
    places = {(problem.table, problem.field) for problem in problems_in_file(raw, tmp_path)}
    assert places == {
        ("", "bucket"),
        ("streams.readings", "address"),
        ("stages.clean", "policy"),
        ("stages.means", "inputs #1"),
        ("sinks.archive", "colour"),
    }


@pytest.mark.parametrize("policy", ["vote", "vote-latest", "sample"])
@pytest.mark.parametrize(("faults", "replicas"), [(1, 3), (1, 4), (2, 6), (2, 7), (2, 9)])
def test_voting_needs_enough_replicas(policy: str, faults: int, replicas: int) -> None:
    raw = changed("stages", "means", "policy", policy)
    raw["stages"]["means"]["faults"] = faults
    del raw["stages"]["means"]["max_delay"]
    raw["stages"]["clean"]["replicas"] = [f"127.0.0.1:{8000 + at}" for at in range(replicas)]
    if replicas > 3 * faults:
        in_python(raw)
    else:
        (problem,) = problems_in_python(raw)
        assert f"needs {3 * faults + 1} replicas of each input" in problem.message


@pytest.mark.parametrize("policy", ["vote", "vote-latest", "sample"])
def test_a_source_cannot_be_voted_on(policy: str) -> None:
    raw = changed(*STAGE, "policy", policy)
    del raw["stages"]["clean"]["max_delay"]
    problems = problems_in_python(raw)
    assert {problem.field for problem in problems} == {"policy"}
    assert "the stream 'readings' has one source only" in problems[0].message


def voted_on(policy: str, **means: Any) -> dict[str, Any]:
    """Four replicas of `clean`, of `means`, which has this policy, and a sink that votes on it."""
    raw = fleet()
    for at, name in enumerate(("clean", "means")):
        ports = range(8000 + 10 * at, 8004 + 10 * at)
        raw["stages"][name]["replicas"] = [f"127.0.0.1:{port}" for port in ports]
    raw["stages"]["means"] |= {"policy": policy} | means
    del raw["stages"]["means"]["max_delay"]
    raw["sinks"]["screen"] = {"stream": "means", "sink": "console", "policy": "vote"}
    return raw


@pytest.mark.parametrize("policy", ["vote-latest", "latest"])
def test_replicas_that_skip_buckets_are_not_voted_on(policy: str) -> None:
    """Honest ones could be found lying."""
    (problem,) = problems_in_python(voted_on(policy))
    assert (problem.table, problem.field) == ("sinks.screen", "policy")
    assert f"with the policy '{policy}' honest replicas of 'means' may" in problem.message
    assert "use 'vote', 'first' or 'switch' in [stages.means]" in problem.message


def test_nor_are_those_behind_them() -> None:
    raw = voted_on("vote")
    raw["stages"]["clean"]["policy"] = "latest"
    del raw["stages"]["clean"]["max_delay"]
    problems = problems_in_python(raw)
    assert [(each.table, each.field) for each in problems] == [
        ("stages.means", "policy"),
        ("sinks.screen", "policy"),
    ]
    assert "honest replicas of 'clean', which 'means' depends on, may" in problems[1].message


@pytest.mark.parametrize("policy", ["vote", "sample", "first"])
def test_replicas_that_miss_nothing_are_voted_on(policy: str) -> None:
    assert in_python(voted_on(policy)).sinks["screen"].policy == "vote"


def test_one_replica_may_skip_buckets() -> None:
    """All that depends on it misses the same."""
    raw = voted_on("vote")
    raw["stages"]["clean"]["policy"] = "latest"
    raw["stages"]["clean"]["replicas"] = ["127.0.0.1:8000"]
    raw["stages"]["means"]["policy"] = "first"
    del raw["stages"]["clean"]["max_delay"]
    assert in_python(raw).stages["clean"].policy == "latest"


@pytest.mark.parametrize("policy", ["vote", "first"])
def test_a_sink_that_compares_replicas_takes_final_rows_only(policy: str) -> None:
    raw = fleet()
    raw["stages"]["clean"]["replicas"] = [f"127.0.0.1:{8000 + at}" for at in range(4)]
    raw["sinks"]["screen"] = {"stream": "clean", "sink": "console", "policy": policy}
    assert in_python(raw).sinks["screen"].policy == policy
    raw["sinks"]["screen"]["tentative"] = True
    (problem,) = problems_in_python(raw)
    assert (problem.table, problem.field) == ("sinks.screen", "tentative")


@pytest.mark.parametrize("policy", ["order", "first", "latest"])
def test_other_policies_read_sources(policy: str) -> None:
    raw = changed(*STAGE, "policy", policy)
    raw["stages"]["clean"]["max_delay"] = "forever"
    assert in_python(raw).stages["clean"].policy == policy


def shared() -> dict[str, Any]:
    raw = changed(*STAGE, "policy", "share")
    del raw["stages"]["clean"]["max_delay"]
    return raw


def test_replicas_share_the_work_of_a_stage_without_state() -> None:
    topology = in_python(shared())
    assert topology.seats("clean") == {
        "clean@1": ("clean/1", "clean/2"),
        "clean@2": ("clean/2", "clean/1"),
    }
    assert topology.readers("readings")[:2] == ("clean@1", "clean@2")
    assert topology.seats("means") == topology.seats("readings") == {}


@pytest.mark.parametrize("policy", ["vote", "first", "latest"])
def test_shared_work_is_not_compared(policy: str) -> None:
    raw = shared()
    raw["stages"]["clean"]["replicas"] = [f"127.0.0.1:{8000 + at}" for at in range(4)]
    raw["stages"]["means"]["policy"] = policy
    del raw["stages"]["means"]["max_delay"]
    (problem,) = problems_in_python(raw)
    assert (problem.table, problem.field) == ("stages.means", "policy")
    assert "those of 'clean' share their work; use 'switch' here" in problem.message


@pytest.mark.parametrize(
    ("step", "field"),
    [
        ({"window": {"size": "1s", "aggregates": ["count() AS n"]}}, "steps #2 window"),
        ({"join": {"keys": ["sensor"], "within": "1s"}}, "steps #1 join"),
    ],
)
def test_a_state_cannot_be_shared(step: dict[str, Any], field: str) -> None:
    raw = shared()
    steps = raw["stages"]["clean"]["steps"]
    raw["stages"]["clean"]["steps"] = [step, *steps] if "join" in step else [*steps, step]
    problems = [each for each in problems_in_python(raw) if each.table == "stages.clean"]
    assert [each.field for each in problems] == [field]
    assert "put the" in problems[0].message
    assert "into a stage behind this one" in problems[0].message


def test_one_replica_has_nobody_to_share_with() -> None:
    raw = shared()
    raw["stages"]["clean"]["replicas"] = ["127.0.0.1:7101"]
    (problem,) = problems_in_python(raw)
    assert "and there is one; give more, or use 'switch'" in problem.message


def test_at_most_once_replicas_behind_it_would_disagree() -> None:
    raw = shared()
    raw["stages"]["clean"]["guarantee"] = "at-most-once"
    problems = problems_in_python(raw)
    assert {each.field for each in problems} == {"guarantee"}
    assert "[stages.means] could miss different buckets" in problems[0].message
    for name in ("means", "pairs"):
        raw["stages"][name]["replicas"] = raw["stages"][name]["replicas"][:1]
    assert in_python(raw).stages["clean"].guarantee == "at-most-once"


def test_merge_is_for_the_windows_of_an_edge() -> None:
    raw = changed(*STAGE, "policy", "merge")
    del raw["stages"]["clean"]["max_delay"]
    problems = problems_in_python(raw)
    assert [each.field for each in problems] == ["inputs #1", "inputs #2"]
    assert "'readings' is a stream with the source 'push'" in problems[0].message
    assert "source = 'edge'" in problems[0].message
    raw["stages"]["clean"]["policy"] = "order"
    raw["stages"]["means"]["policy"] = "merge"
    del raw["stages"]["means"]["max_delay"]
    (problem,) = problems_in_python(raw)
    assert "'clean' is a stage" in problem.message
    edge = {"source": "edge", "path": "edge.toml", "address": "127.0.0.1:7003"}
    raw["streams"]["plant"] = edge
    raw["stages"]["means"] |= {"inputs": ["plant"], "steps": [{"where": "complete"}]}
    assert in_python(raw).stages["means"].policy == "merge"


@pytest.mark.parametrize("left_out", [None, *COMPLETE])
def test_other_machines_need_all_of_security(left_out: str | None) -> None:
    raw = changed(*STREAM, "address", OUTSIDE)
    raw["security"] = {name: value for name, value in COMPLETE.items() if name != left_out}
    if left_out is None:
        in_python(raw)
        raw["security"] = raw["security"] | {"token_file": None, "token_env": "TOKEN"}
        in_python(raw)
    else:
        (problem,) = problems_in_python(raw)
        assert (problem.table, problem.field) == ("security", left_out)
        assert OUTSIDE in problem.message


def test_a_token_alone_will_do_on_one_machine() -> None:
    assert in_python(changed("security", {"token_file": "token"})).security is not None


def test_retain_need_not_be_more_than_what_is_downstream() -> None:
    assert in_python(changed(*STREAM, "retain", "64001ms")).streams["readings"].retain == 64_001_000
    # Nothing reads it.
    assert in_python(changed("stages", "means", "retain", "1s")).stages["means"].retain == 1_000_000


def test_unknown_columns_are_not_judged() -> None:
    raw = changed("stages", "means", "steps", 0, {"sql": "SELECT *, 1 AS x FROM input"})
    in_python(raw)
    raw = changed("stages", "means", "steps", 0, {"select": ["*", "value * 2"]})
    in_python(raw)


def test_a_column_is_found_whatever_its_case_by_sql_only() -> None:
    in_python(changed("stages", "means", "steps", 0, {"select": ["sensor", "VALUE", "1 AS twice"]}))
    assert problems_in_python(changed(*WINDOW, "keys", ["Sensor"]))


def test_many_problems_are_cut_in_the_message_only(tmp_path: Path) -> None:
    raw = changed(*STAGE, "inputs", [f"nowhere-{at}" for at in range(80)])
    with pytest.raises(TopologyError) as caught:
        in_file(raw, tmp_path)
    assert len(caught.value.problems) == 80
    assert len(str(caught.value).splitlines()) == 51
    assert str(caught.value).endswith("and 30 more; mend these first")


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"name": None, "bucket": object(), "streams": {1: 2, None: None}},
        {"streams": {"a": None}, "stages": {"b": Stage()}, "sinks": {"c": 1}},
        {"stages": {"b": Stage(replicas=[Replica(), Replica(5), None], steps=[None, 1, {}])}},
        {"stages": {"b": Stage(inputs=[None], replicas={"a"}, steps={1: 2}, max_delay=[])}},
    ],
)
def test_whatever_is_given_in_python_is_told(values: dict[str, Any]) -> None:
    with pytest.raises(TopologyError, match=r"^topology: "):
        Topology(**values)
