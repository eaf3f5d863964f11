"""Shelves with a fork against dictionaries."""

from ast import literal_eval
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.pipeline.stages.operator import GONE, ForkableShelf


class MemoryRecords:
    def __init__(self) -> None:
        self.kept: dict[tuple[Any, int], Any] = {}

    def read(self, name: Any, number: int) -> Any:
        return self.kept.get((name, number))

    def write(self, name: Any, number: int, record: Any) -> None:
        self.kept[name, number] = record

    def delete(self, name: Any, number: int) -> None:
        self.kept.pop((name, number), None)

    def clear(self) -> None:
        self.kept.clear()

    def items(self):
        return ((*at, record) for at, record in list(self.kept.items()))

    def raw_items(self):
        return ((*at, repr(record).encode()) for at, record in list(self.kept.items()))

    def write_raw(self, name: Any, number: int, record: bytes) -> None:
        self.kept[name, number] = literal_eval(record.decode())


NAMES = st.sampled_from(["a", "b"])
NUMBERS = st.integers(0, 2)
RECORDS = st.one_of(
    st.integers(),
    st.just(GONE),
    st.tuples(st.just(GONE)),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["write"]), st.booleans(), NAMES, NUMBERS, RECORDS),
        st.tuples(st.sampled_from(["delete"]), st.booleans(), NAMES, NUMBERS),
        st.tuples(st.sampled_from(["fork", "drop", "clear", "copy", "reopen"])),
    ),
    max_size=40,
)


@given(steps=STEPS)
def test_base_and_fork_see_what_two_dictionaries_hold(steps):
    records = MemoryRecords(), MemoryRecords()
    shelf = ForkableShelf(*records, forked=False)
    base: dict[Any, Any] = {}
    fork: dict[Any, Any] | None = None
    for kind, *what in steps:
        match kind:
            case "fork":
                shelf.fork()
                fork = dict(base)
            case "drop":
                shelf.drop()
                fork = None
            case "clear":
                shelf.clear_base()
                base.clear()
            case "copy":
                copied = list(shelf.records())
                shelf.clear_base()
                for record in copied:
                    shelf.install(*record)
            case "reopen":
                shelf = ForkableShelf(*records, forked=fork is not None)
            case _:
                for_fork, name, number, *record = what
                model, view = (fork, shelf.tip) if for_fork else (base, shelf.base)
                if model is None:
                    continue
                if kind == "write":
                    view.write(name, number, *record)
                    model[name, number] = record[0]
                else:
                    view.delete(name, number)
                    model.pop((name, number), None)
        for at in [(name, number) for name in "ab" for number in range(3)]:
            assert shelf.base.read(*at) == base.get(at)
            if fork is not None:
                assert shelf.tip.read(*at) == fork.get(at)
        assert records[0].kept == base
    if fork is None:
        assert not list(records[1].items())
