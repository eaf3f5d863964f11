from __future__ import annotations

from random import Random

import pytest

from holdfast.pipeline.topology.rules import find_cycles, layers_of, most_after, sort_stages


def draw(seed: int) -> dict[str, list[str]]:
    """A graph of a few stages over two streams, as a rule without cycles."""
    random = Random(seed)
    names = [f"s{at}" for at in range(random.randint(1, 7))]
    earlier = ["a", "b"]
    inputs = {}
    for name in names:
        inputs[name] = random.sample(earlier, random.randint(1, min(3, len(earlier))))
        earlier.append(name)
    shuffled = list(inputs.items())
    random.shuffle(shuffled)
    return dict(shuffled)


def paths_from(name: str, inputs: dict[str, list[str]]) -> list[list[str]]:
    """All paths of stages that begin behind a stream or stage."""
    paths: list[list[str]] = [[]]
    for stage, read in inputs.items():
        if name in read:
            paths += [[stage, *path] for path in paths_from(stage, inputs)]
    return paths


@pytest.mark.parametrize("seed", range(100))
def test_order_layers_and_what_is_downstream(seed: int) -> None:
    inputs = draw(seed)
    random = Random(seed)
    lengths = {name: random.randrange(10) for name in inputs}
    order = sort_stages(inputs)
    assert sorted(order) == sorted(inputs)
    place = {name: at for at, name in enumerate(order)}
    assert all(
        place[each] < place[name] for name in inputs for each in inputs[name] if each in place
    )
    assert find_cycles(inputs) == []

    layers = layers_of(["a", "b"], inputs)
    layer = {name: at for at, names in enumerate(layers) for name in names}
    assert sorted(layer) == sorted(["a", "b", *inputs])
    for name, read in inputs.items():
        assert layer[name] == 1 + max(layer[each] for each in read)

    most = most_after(inputs, lambda stage, after: after + lengths[stage])
    for name in ["a", "b", *inputs]:
        longest = max(sum(lengths[stage] for stage in path) for path in paths_from(name, inputs))
        assert most.get(name, 0) == longest


@pytest.mark.parametrize("seed", range(100))
def test_cycles_are_found(seed: int) -> None:
    random = Random(seed)
    inputs = draw(seed)
    name = random.choice(list(inputs))
    downstream = {stage for path in paths_from(name, inputs) for stage in path} | {name}
    inputs[name] = [*inputs[name], random.choice(sorted(downstream))]
    cycles = find_cycles(inputs)
    assert cycles
    for cycle in cycles:
        for reader, read in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            assert read in inputs[reader]
    assert name not in sort_stages(inputs)


def test_two_cycles_are_two() -> None:
    inputs = {"a": ["b"], "b": ["a"], "c": ["d"], "d": ["c"], "e": ["a"], "f": ["x"]}
    assert {frozenset(cycle) for cycle in find_cycles(inputs)} == {
        frozenset("ab"),
        frozenset("cd"),
    }
    assert sort_stages(inputs) == ["f"]


def test_nothing_at_all() -> None:
    assert sort_stages({}) == layers_of([], {}) == find_cycles({}) == []
