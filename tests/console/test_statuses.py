"""What the console keeps of what a party says: checked, for a party may say anything."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.console import pollers as statuses
from holdfast.console.pollers import (
    FIGURES,
    SEVERITIES,
    STARTING,
    Condition,
    StatusError,
    condition_of,
    condition_of_reader,
    severity_of,
)
from tests.console.fake_fleet import fleet_topology, status_of


def written(**changes: Any) -> bytes:
    return json.dumps(status_of(fleet_topology(Path()), "sums/1") | changes).encode()


def test_a_replica_that_is_well() -> None:
    found = condition_of(written())
    assert found.state == "STABLE"
    assert found.facts["links"] == {"clean/1": True, "clean/2": True, "sums/2": True}
    assert found.callers == {"archive"}
    figures = dict(zip(FIGURES, found.figures, strict=True))
    assert figures["stable_rows"] == 12_345
    assert figures["batch_seconds"] == 0.41
    assert math.isnan(figures["late_rows"])
    assert severity_of(found) == 1


def test_one_that_is_not_ready_starts() -> None:
    assert condition_of(written(ready=False)).state == STARTING


def test_votes_are_kept_of_those_who_compare() -> None:
    votes = {
        "accused": {"clean/2": 3},
        "quarantined": ["clean/2"],
        "recalculated": 2,
        "tainted": 1,
        "gave_up": {},
        "waits_for": ["clean/1"],
    }
    found = condition_of(written(**votes))
    assert found.facts["votes"] == votes
    assert severity_of(found) == 3
    assert "votes" not in condition_of(written()).facts


def test_votes_by_bucket_are_kept_if_they_are_votes() -> None:
    replicas = ["clean/1", "clean/2"]
    votes = {"clean": {"replicas": replicas, "buckets": [[10, "ad", 0], [20, "aaa", 0]]}}
    found = condition_of(written(accused={}, votes=votes))
    assert found.ballots == {"clean": {"replicas": replicas, "buckets": [(10, "ad", 0)]}}
    assert condition_of_reader({"accused": {}, "votes": votes}).ballots == found.ballots
    assert condition_of_reader({"accused": {"clean/2": 1}}).facts["votes"]["accused"]


@pytest.mark.parametrize(
    "votes",
    [
        {"clean": {"replicas": ["<b>"], "buckets": [[10, "<", 0]]}},
        {"clean": {"replicas": ["a"] * 300, "buckets": []}},
        {"clean": {"replicas": ["a"], "buckets": [[10, "a", 0]] * 300}},
        {"clean": {"replicas": ["a"], "buckets": [["soon", "a", 0]]}},
        {"clean": 7},
    ],
)
def test_votes_that_are_none_are_refused(votes: Any) -> None:
    with pytest.raises(StatusError):
        condition_of(written(votes=votes))


@pytest.mark.parametrize(
    ("url", "is_kept"),
    [
        ("http://127.0.0.1:4040", True),
        ("https://spark.example:4040/", True),
        ("javascript:alert(1)", False),
        ("data:text/html,x", False),
        ("http://[bad", False),
    ],
)
def test_only_a_web_address_becomes_a_link(url: str, is_kept: bool) -> None:
    assert ("spark_ui" in condition_of(written(spark_ui=url)).facts) == is_kept


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"nothing",
        b"[]",
        b'"STABLE"',
        b'{"state": 7}',
        b'{"state": "WELL"}',
        b'{"state": "STABLE", "links": {"clean/1": "yes"}}',
        b'{"state": "STABLE", "callers": "archive"}',
        b'{"state": "STABLE", "accused": {"clean/1": "often"}}',
        b'{"state": "STABLE", "quarantined": [["clean/1"]]}',
        b'{"state": "STABLE", "gave_up": ["clean"]}',
        json.dumps({"state": "S" * 1000}).encode(),
        json.dumps({"state": "STABLE", "callers": ["x"] * 5000}).encode(),
        b"[" * 100_000,
        b'{"state": "STABLE"' + b" " * statuses.MOST + b"}",
    ],
)
def test_what_is_no_status_is_refused(said: bytes) -> None:
    with pytest.raises(StatusError):
        condition_of(said)


def test_numbers_that_are_none_are_left_out() -> None:
    found = condition_of(written(lag_seconds="soon", stable_rows=True, log_bytes=10**400))
    figures = dict(zip(FIGURES, found.figures, strict=True))
    assert all(math.isnan(figures[name]) for name in ("lag_seconds", "stable_rows", "log_bytes"))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    ),
    st.sampled_from(["state", "links", "callers", "accused", "quarantined", "ready", "boundary"]),
)
def test_whatever_it_says_is_a_condition_or_refused(value: Any, name: str) -> None:
    try:
        found = condition_of(written(**{name: value}))
    except StatusError:
        return
    assert found.state in SEVERITIES
    assert len(found.figures) == len(FIGURES)


def test_a_loss_of_state_is_worse_than_it_looks() -> None:
    assert severity_of(Condition({"state": "STABLE", "stranded": True})) == 3
