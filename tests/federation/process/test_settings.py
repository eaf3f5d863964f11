from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.federation.machine import Load
from holdfast.federation.process.settings import Participant
from holdfast.pipeline.topology import TopologyError

GOOD = """
address = "127.0.0.1:7501"
key = "north.key"
topology = "grid.toml"
capacity = 0.8

[cpu]
curve = "points"
points = [[0, 0], [0.5, 1], [1, 4]]

[partners.south]
address = "127.0.0.1:7502"
public = "{key}"

[buys.south]
price = 4.0
low = 3.5
duration = "10m"
kinds = ["public"]
onward = false

[sells.south]
price = 2

[tasks.clean]
replica = "clean/1"
own = true
""".replace("{key}", "ab" * 32)


def read(tmp_path: Path, text: str) -> Participant:
    path = tmp_path / "north.toml"
    path.write_text(text)
    return Participant.read(path)


def test_a_file_becomes_contracts_and_costs(tmp_path: Path) -> None:
    north = read(tmp_path, GOOD)
    buying = north.contracts().to("south")
    assert buying is not None
    assert (buying.buyer, buying.low, buying.high) == ("north", 3.5, 4.0)
    assert (buying.duration, buying.kinds, buying.onward) == (600_000_000, {"public"}, False)
    selling = north.contracts().of("south")
    assert selling is not None
    assert selling.is_fixed
    assert north.cost(Load(0.75)) == 2.5
    assert north.rules().margin == 0.02


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("low = 3.5", "low = 4.5", "buys.south]: contract north → south: the range"),
        ('kinds = ["public"]', "kinds = []", "buys.south] kinds"),
        ("[partners.south]", "[partners.west]", "buys.south]: there is no such partner"),
        ('public = "abab', 'public = "xyab', "partners.south] public: is no key"),
        ('topology = "grid.toml"', "", "topology: is missing"),
        ("[1, 4]]", "[1, 1.5]]", "cpu]: points: at share 0.5 it gets flatter"),
        ('curve = "points"', 'curve = "power"\nexponent = 0.5', "is not convex"),
        ("127.0.0.1:7501", "10.0.0.1:7501", "address: can be reached by other machines"),
        ("own = true", "own = true\nprice = 3", "tasks.clean] price: there is no such field"),
        ("[partners.south]", "[partners.north]", "partners.north]: is this participant itself"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    assert old in GOOD
    with pytest.raises(TopologyError) as caught:
        read(tmp_path, GOOD.replace(old, new))
    assert words in str(caught.value)


def test_a_replica_runs_one_task(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match=r"runs \[tasks.clean\] already"):
        read(tmp_path, GOOD + '[tasks.other]\nreplica = "clean/1"\n')


def test_replicas_of_a_stage_are_not_owned_by_one(tmp_path: Path) -> None:
    other = '[tasks.other]\nreplica = "clean/2"\n'
    assert read(tmp_path, GOOD + other).tasks["other"].stage == "clean"
    with pytest.raises(TopologyError, match="run at different participants"):
        read(tmp_path, GOOD + other + "own = true\n")
