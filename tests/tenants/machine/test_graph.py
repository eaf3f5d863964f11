from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.tenants.machine.graph import components, depths, novelty, parts, sources_of

GRAPHS = st.integers(1, 9).flatmap(
    lambda n: st.dictionaries(
        st.integers(0, n - 1), st.lists(st.integers(0, n - 1), max_size=4), max_size=n
    ).map(lambda edges: (list(range(n)), edges))
)


def ways(nodes, edges):
    return {start: {node for node in nodes if node in walk(start, edges)} for start in nodes}


def walk(start, edges):
    found, front = set(), [start]
    while front:
        for other in edges.get(front.pop(), ()):
            if other not in found:
                found.add(other)
                front.append(other)
    return found


@given(GRAPHS)
def test_components_are_cycles_in_order(graph) -> None:
    nodes, edges = graph
    found = components(nodes, edges)
    reach = ways(nodes, edges)
    assert sorted(node for cycle in found for node in cycle) == nodes
    rank = {node: number for number, cycle in enumerate(found) for node in cycle}
    for one in nodes:
        for other in nodes:
            together = one == other or (other in reach[one] and one in reach[other])
            assert (rank[one] == rank[other]) == together
            if other in reach[one] and not together:
                assert rank[one] < rank[other]


@given(GRAPHS)
def test_sources_are_those_with_no_inputs_that_lead_there(graph) -> None:
    nodes, edges = graph
    edges = {node: [o for o in others if o != node] for node, others in edges.items()}
    reach = ways(nodes, edges)
    simple = [n for n in nodes if all(n not in others for others in edges.values())]
    for node, found in sources_of(nodes, edges).items():
        wanted = {s for s in simple if s == node or node in reach[s]}
        assert found == wanted


def test_depth_and_novelty_of_the_documents_example() -> None:
    # Figure 3.3 in words: c, g, h and e bring something new, f and d are one step from it.
    edges = {"a": ["c", "e"], "b": ["c", "h"], "c": ["f", "d"], "d": ["c"], "h": ["e"]}
    nodes = sorted({*edges, *(o for others in edges.values() for o in others)})
    found = novelty(nodes, edges)
    assert found["e"] == 0
    assert found["f"] == found["d"] == 1
    assert depths(nodes, {"a": ["b"], "b": ["c"], "c": ["b", "d"]})["d"] == 3


@given(st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=4), max_size=8))
def test_parts_share_nothing(groups) -> None:
    found = parts(groups)
    assert sorted(n for part in found for n in part) == sorted({n for g in groups for n in g})
    home = {n: i for i, part in enumerate(found) for n in part}
    for group in groups:
        assert len({home[n] for n in group}) == 1
    for one in range(len(found)):
        if len(found[one]) > 1:
            assert any(len(set(g) & set(found[one])) > 1 for g in groups)
