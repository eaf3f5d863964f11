from __future__ import annotations

import io

from rich.console import Console

from holdfast.pipeline.topology.drawing import print_topology
from tests.pipeline.topology.builders import fleet, in_python


def drawn(width: int) -> str:
    screen = io.StringIO()
    print_topology(in_python(fleet()), Console(file=screen, width=width))
    return screen.getvalue()


def test_columns_from_sources_to_sinks() -> None:
    lines = drawn(160).splitlines()
    (line,) = [line for line in lines if "─▶" in line]
    assert line.count("─▶") == 3
    whole = "\n".join(lines)
    where = [min(at for line in lines if (at := line.find(name)) >= 0) for name in
             ("─ readings", "─ clean", "─ means", "─ archive")]  # fmt: skip
    assert where == sorted(where)
    for said in (
        "source push",
        "◀ readings, others",
        "switch, max_delay 4s",
        "1 127.0.0.1:7101",
        "2 127.0.0.1:7202 on edge",
        "window 1m every 10s by sensor",
        "join sensor within 10s",
        "table t",
    ):
        assert said in whole
    assert "sqlite" not in whole, "the URL of a database may hold a password"


def test_a_narrow_screen_has_one_layer_below_the_other() -> None:
    lines = drawn(60).splitlines()
    assert max(map(len, lines)) <= 60
    assert [line for line in lines if "▼" in line] == ["  ▼"] * 3
