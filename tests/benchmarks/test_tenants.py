"""The topology generator makes what the document's table has."""

from __future__ import annotations

import pytest

from benchmarks.tenants.topologies import SIZES, generate, in_degree, length, out_degree


@pytest.mark.parametrize("name", SIZES)
def test_topologies_have_the_shape_of_the_table(name: str) -> None:
    nodes, sources, edges = SIZES[name]
    made = generate(name, nodes, sources, edges, seed=1)
    shape = made.degrees()
    assert (shape["nodes"], shape["sources"], shape["edges"]) == (nodes, sources, edges)
    assert made == generate(name, nodes, sources, edges, seed=1)
    before = set(made.sources)
    for stream, inputs in made.composites.items():
        assert inputs
        assert set(inputs) <= before
        assert len(set(inputs)) == len(inputs)
        before.add(stream)
    assert set(made.sources) <= {each for inputs in made.composites.values() for each in inputs}


def test_pipelines_are_long_or_wide() -> None:
    assert length(101).depth() == 100
    assert in_degree(101).degrees()["max in"] == 100
    assert out_degree(101).degrees()["max out"] == 100
