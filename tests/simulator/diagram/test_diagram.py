"""Diagrams that could not run are refused, with the place and the remedy."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import InvalidArgumentError
from simulator.diagram import (
    Diagram,
    Filter,
    Join,
    Map,
    Merge,
    OrderedJoin,
    Placed,
    Timeout,
    Union,
)


def keep(row: Any) -> tuple[Any, Any]:
    return row.key, row.value


def place(name: str, operator: Any, *inputs: str, stage: str = "one") -> Placed:
    return Placed(name, operator, inputs, stage)


MAP = place("m", Map(keep), "a")
CASES = Filter((("big", bool), ("small", bool)), no_match="rest")


def test_operators_come_after_those_they_read_from() -> None:
    diagram = Diagram(
        ("a", "b"),
        (
            place("last", Join(5), "small", "all"),
            place("cases", CASES, "all"),
            place("all", Union(), "a", "b"),
        ),
        ("last", "big", "rest"),
    )
    assert [placed.name for placed in diagram.sorted()] == ["all", "cases", "last"]


@pytest.mark.parametrize(
    ("sources", "operators", "outputs", "words"),
    [
        (["a", "a"], [MAP], ["m"], "sources: a more than once; name each once"),
        (["a"], [MAP, MAP], ["m"], "operators: m more than once"),
        (["a"], [MAP], ["m", "m"], "outputs: m more than once"),
        (["a"], [place("a", Map(keep), "a")], ["a"], "streams: a more than once"),
        (
            ["a"],
            [place("f", CASES, "a"), place("big", Map(keep), "small")],
            ["big", "rest"],
            "streams: big more than once",
        ),
        (["a"], [place("m", Map(keep), "x")], ["m"], "operator m: reads x, .*; give one of .'a'"),
        (["a"], [MAP], ["x"], "outputs: x is made by no operator; give one of .'m'"),
        (["a"], [MAP], ["m", "a"], "outputs: a is made by no operator"),
        (["a"], [MAP], [], "outputs: there are none; name a stream"),
        (["a"], [], ["a"], "outputs: a is made by no operator"),
        (["a", "b"], [MAP], ["m"], "stream b: nobody reads it; leave it out"),
        (["a"], [MAP, place("n", Map(keep), "a")], ["m"], "stream n: nobody reads it"),
        (["a"], [place("f", CASES, "a")], ["big", "small"], "stream rest: nobody reads it"),
        (["a"], [place("u", Union(), "a")], ["u"], "operator u: a Union does not read 1 streams"),
        (["a"], [place("j", Join(5), "a")], ["j"], "operator j: a Join does not read 1 .*give two"),
        (["a"], [place("j", Join(5), "a", "a", "a")], ["j"], "a Join does not read 3 streams"),
        (["a"], [place("m", Map(keep), "a", "a")], ["m"], "a Map does not read 2 .*a Union before"),
        (["a"], [place("m", Map(keep))], ["m"], "operator m: a Map does not read 0 streams"),
        (
            ["a"],
            [place("u", Union(), "a", "m"), place("m", Map(keep), "u")],
            ["m"],
            "operators: (u -> m -> u|m -> u -> m) is a loop; feed nothing back",
        ),
        (["a"], [place("u", Union(), "a", "u")], ["u"], "operators: u -> u is a loop"),
        (
            ["a"],
            [place("t", Timeout(5), "a")],
            ["t"],
            "operator t: a Timeout is not deterministic, .* stage one would differ; let boundaries",
        ),
        (["a"], [place("x", Merge(), "a", "a")], ["x"], "Merge is what rewriting makes; give a Un"),
        (["a"], [place("x", OrderedJoin(5), "a", "a")], ["x"], "OrderedJoin is what rewriting"),
    ],
)
def test_refusals(
    sources: list[str], operators: list[Placed], outputs: list[str], words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        Diagram(tuple(sources), tuple(operators), tuple(outputs))
