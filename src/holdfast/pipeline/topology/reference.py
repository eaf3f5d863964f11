"""Reference of the topology file, docs/topology.md, written from the code.

`scripts/write-topology-reference.py` writes it; a test sees that it is up to date.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from inspect import getdoc
from typing import Any, Final

from holdfast.config.security import Security
from holdfast.config.settings import ByName, One, Setting, settings_of
from holdfast.pipeline.machine.tuples import STIME
from holdfast.pipeline.topology.columns import TYPES
from holdfast.pipeline.topology.expressions import FUNCTIONS
from holdfast.pipeline.topology.policies import POLICIES
from holdfast.pipeline.topology.sinks import SINKS, Sink
from holdfast.pipeline.topology.stages import STEPS, Replica, Stage
from holdfast.pipeline.topology.streams import SOURCES, Stream
from holdfast.pipeline.topology.topology import Topology
from holdfast.pipeline.topology.writing import write_value

EXAMPLE: Final = """\
name = "fleet"
bucket = "500ms"

[streams.trucks]
source = "push"                              # any Arrow Flight client pushes rows
address = "127.0.0.1:7001"
schema = { vehicle = "string", speed = "double", measured_at = "timestamp" }
time = "measured_at"
lateness = "2s"
retain = "10m"

[streams.vans]
source = "mqtt"
broker = "127.0.0.1:1883"
topics = ["vans/#"]
address = "127.0.0.1:7002"
schema = { vehicle = "string", speed = "double", measured_at = "timestamp" }
time = "measured_at"

[streams.depots]
source = "files"
path = "depots"
format = "csv"
address = "127.0.0.1:7003"
schema = { vehicle = "string", depot = "string" }

[stages.clean]                               # two streams: their union
inputs = ["trucks", "vans"]
replicas = ["127.0.0.1:7101", "127.0.0.1:7102"]
max_delay = "4s"
retain = "10m"
steps = [
  { where = "speed IS NOT NULL" },
  { select = ["vehicle", "speed * 3.6 AS kmh"] },
]

[stages.minutes]
inputs = ["clean"]
replicas = ["127.0.0.1:7201", "127.0.0.1:7202"]
max_delay = "4s"
steps = [
  { window = { keys = ["vehicle"], size = "1m", slide = "10s", aggregates = [
    "count() AS n",
    "mean(kmh) AS kmh",
  ] } },
  { where = "n > 5" },
]

[stages.located]
inputs = ["clean", "depots"]
replicas = [
  { address = "127.0.0.1:7301", host = "edge-1" },
  { address = "127.0.0.1:7302", host = "edge-2" },
]
policy = "order"
steps = [{ join = { keys = ["vehicle"], within = "30s" } }]

[sinks.archive]
stream = "clean"
sink = "parquet"
path = "archive"

[sinks.table]
stream = "minutes"
sink = "sql"
url = "sqlite:///fleet.db"
table = "minutes"
keys = ["vehicle"]

[sinks.screen]
stream = "located"
sink = "console"
"""

_OPENING: Final = """\
# The topology file

<!-- Written by scripts/write-topology-reference.py from the code: change it there. -->

A topology is one TOML file: streams with their sources, stages with their replicas, sinks. It is
checked as a whole before anything starts, and every error names the file, the table, the field and
the remedy. `holdfast check FILE` checks it and draws the graph; `--svg OUT` draws it as a picture.

Names of streams, stages and sinks are all different, begin with a letter and have only a-z, 0-9,
`_` and `-`. Paths are relative to the file.

## A complete example
"""

_STEPS: Final = """
### Steps

Each step is a table with one of the names below. `where`, `select`, `sql` and `function` look at
each row alone and may stand before and after a `window`; a `join` is the first step of a stage with
exactly two inputs. Expressions must give the same on every replica, so those that ask the clock or
the dice (`now()`, `rand()` and their like) are refused."""

_VALUES: Final = """
## Values

- **An interval** is a text: `"500ms"`, `"90s"`, `"1h30m"` or `"1 hour 30 minutes"`.
- **An address** is `"host:port"` or `"[IPv6]:port"`, one that the other parties can reach. Those
  of this machine alone (`127.0.0.1`, `localhost`) need no `[security]`."""

_IN_PYTHON: Final = """
## In Python

The same tables are dataclasses of `holdfast.pipeline.topology`, with the same fields and checks; a
topology made of them raises the same errors, with `topology` in the place of the file.
"""

_PYTHON: Final = """\
from holdfast.pipeline.topology import (
    Parquet,
    Push,
    Select,
    Sink,
    Stage,
    Stream,
    Topology,
    Where,
    Window,
)

topology = Topology(
    name="fleet",
    bucket="500ms",
    streams={
        "readings": Stream(
            source=Push(schema={"sensor": "string", "value": "double"}),
            address="127.0.0.1:7001",
        )
    },
    stages={
        "means": Stage(
            inputs=["readings"],
            replicas=["127.0.0.1:7101", "127.0.0.1:7102"],
            max_delay="4s",
            steps=[
                Where("value IS NOT NULL"),
                Select(["sensor", "value * 1.8 + 32 AS value"]),
                Window(keys=["sensor"], size="1m", aggregates=["mean(value) AS mean"]),
            ],
        )
    },
    sinks={"archive": Sink(stream="means", sink=Parquet(path="archive"))},
)

assert topology.publishers("means") == ("means/1", "means/2")
assert topology.readers("readings") == ("means/1", "means/2")
with open("fleet.toml", "w") as file:
    file.write(topology.text())
assert Topology.read("fleet.toml") == topology
"""


def write_reference() -> str:
    """The whole page."""
    return "\n".join([*_page(), ""])


def _page() -> Iterator[str]:
    yield _OPENING
    yield "```toml"
    yield EXAMPLE.rstrip()
    yield "```"
    yield from _table("At the top", Topology, "##")
    yield from _table("`[security]`", Security, "##")
    yield from _table("`[streams.NAME]`", Stream, "##")
    for word, source in SOURCES.items():
        yield from _table(f'`source = "{word}"`', source, "###")
    yield from _table("`[stages.NAME]`", Stage, "##")
    yield from _listed("Policies", "policy", {f"`{word}`": doc for word, doc in POLICIES.items()})
    yield from _table("A replica", Replica, "###")
    yield _STEPS
    for word, step in STEPS.flat.items():
        yield from _table(f"`{{ {word} = ... }}`", step, "####")
    for word, step in STEPS.nested.items():
        yield from _table(f"`{{ {word} = {{ ... }} }}`", step, "####")
    yield from _listed("Aggregates", "aggregate", _aggregates())
    yield from _table("`[sinks.NAME]`", Sink, "##")
    for word, sink in SINKS.items():
        yield from _table(f'`sink = "{word}"`', sink, "###")
    yield _VALUES
    yield f"- **Types of columns** are {', '.join(f'`{name}`' for name in TYPES)}."
    yield f"- **`{STIME}`** is a column of every stream, the event time. No other has that name."
    yield _IN_PYTHON
    yield "```python"
    yield _PYTHON.rstrip()
    yield "```"


def _table(title: str, table: type, level: str) -> Iterator[str]:
    yield ""
    yield f"{level} {title}"
    yield ""
    yield " ".join((getdoc(table) or "").split())
    settings = settings_of(table)
    if not settings:
        yield ""
        yield "It has no fields of its own."
        return
    yield ""
    yield "| field | takes | default | what it is | example |"
    yield "|---|---|---|---|---|"
    for name, setting in settings.items():
        cells = [f"`{name}`", _takes(setting), _default(setting), setting.doc, _example(setting)]
        yield _row(cells)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _takes(setting: Setting[Any, Any]) -> str:
    match setting.kind.shape:
        case One():
            return f"the table `[{setting.name}]`"
        case ByName():
            return f"tables `[{setting.name}.NAME]`"
        case _:
            return setting.kind.what


def _default(setting: Setting[Any, Any]) -> str:
    if setting.default_doc is not None:
        return setting.default_doc
    if setting.is_required:
        return "required"
    if isinstance(setting.kind.shape, ByName):
        return "none"
    return f"`{write_value(setting.kind.write(setting.default))}`"


def _example(setting: Setting[Any, Any]) -> str:
    if isinstance(setting.kind.shape, One | ByName):
        return "below"
    return f"`{setting.name} = {setting.example}`"


def _listed(title: str, head: str, rows: Mapping[str, str]) -> Iterator[str]:
    yield ""
    yield f"### {title}"
    yield ""
    yield f"| {head} | what it does |"
    yield "|---|---|"
    for name, doc in rows.items():
        yield _row([name, doc])


def _aggregates() -> dict[str, str]:
    """What each calculates, by the first paragraph of its docstring."""
    return {
        f"`{name}({'' if name == 'count' else 'column'})`": " ".join(
            (getdoc(make) or "").partition("\n\n")[0].split()
        )
        for name, make in FUNCTIONS.items()
    }
