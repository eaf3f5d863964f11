"""The file of an edge: its nodes, their addresses, and its queries.

Read from TOML or made in Python of the same dataclasses, with the same checks: one error tells all
that is wrong, each with its table, field and remedy. Starts nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from math import gcd
from pathlib import Path
from typing import Any, Final, Literal, cast

from holdfast.config.addresses import is_loopback, parse_address
from holdfast.config.durations import Span
from holdfast.config.fields import (
    ADDRESS,
    FLAG,
    NAME,
    NUMBER,
    TEXT,
    Interval,
    choice,
    interval,
    whole,
)
from holdfast.config.problems import Problem, TopologyError, did_you_mean, show
from holdfast.config.security import Security
from holdfast.config.settings import (
    ByName,
    Kind,
    Named,
    One,
    Refused,
    Setting,
    is_not,
    is_sound,
    optional,
    read_one,
    read_some,
    read_tables,
    setting,
    table,
)
from holdfast.config.toml_files import read_whole
from holdfast.config.validation import check_fields
from holdfast.edge.machine.messages import Guarantee
from holdfast.edge.machine.messages import Query as Asked
from holdfast.errors import InvalidArgumentError

AGGREGATES: Final = {
    "count": (),
    "sum": (),
    "mean": (),
    "min": (),
    "max": (),
    "range": (),
    "variance": (),
    "top_k": ("k",),
    "distinct": ("lg_k",),
    "quantiles": ("k", "shares"),
}
"""Those of `holdfast.edge.machine.aggregates`, and the options that each takes."""
ROOT: Final = "root"


@table
class Root:
    """Where all partial results come together."""

    address: Setting[str, str] = setting(ADDRESS, "Where it listens.", example='"127.0.0.1:7400"')
    output: Setting[str | None, str | None] = optional(
        TEXT,
        "A file that windows are appended to as lines of JSON, relative to this file; each is on "
        "disk before the children may forget it.",
        example='"windows.jsonl"',
        default="they are printed",
    )


@table
class Child:
    """Aggregates the events of its partitions, and keeps a copy of what the others did."""

    address: Setting[str, str] = setting(ADDRESS, "Where it listens.", example='"127.0.0.1:7401"')
    group: Setting[str, str] = setting(
        NAME,
        "The children that stand in for each other; sensors belong to one group too.",
        example='"north"',
        default="edge",
    )


@table
class Intermediate:
    """Merges what those below send, and sends it on; any one of a layer is enough."""

    address: Setting[str, str] = setting(ADDRESS, "Where it listens.", example='"127.0.0.1:7421"')
    group: Setting[str, str] = setting(
        NAME, "The group of children it merges.", example='"north"', default="edge"
    )
    layer: Setting[int, int] = setting(
        whole(1), "Children send to layer 1, that to layer 2.", example="2", default=1
    )


@table
class Sensor:
    """Where events come from."""

    group: Setting[str, str] = setting(
        NAME, "The group of children it sends to.", example='"north"', default="edge"
    )
    input: Setting[str, str] = setting(
        choice("simulated", "csv", "jsonl"),
        "`simulated`: whole numbers at an even pace. Otherwise lines on its standard input: CSV "
        "with a line of names, or a JSON object each, with `value`, and if wanted `time` "
        "(seconds since 1970, or ISO 8601) and `key`.",
        example='"csv"',
        default="simulated",
    )
    rate: Setting[float, float] = setting(
        NUMBER, "Simulated events a second.", example="1000", default=1000
    )
    keys: Setting[int, int] = setting(
        whole(0), "How many keys simulated events have.", example="20", default=0
    )
    seed: Setting[int, int] = setting(
        whole(0), "The same seed gives the same values.", example="7", default=0
    )
    events: Setting[int | None, int | None] = optional(
        whole(1), "End after so many simulated events.", example="100000", default="never"
    )
    lateness: Setting[Interval, Span] = setting(
        interval("0s"),
        "How far its events may be out of the order of time; windows wait so much longer.",
        example='"200ms"',
        default=Span(0),
    )
    idle: Setting[Interval, Span] = setting(
        interval("1ms"),
        "When no line has come for so long, windows wait no longer for those that may come: one "
        "with a time so long ago is then late.",
        example='"10s"',
        default=Span(1_000_000),
    )


def _read_shares(value: Any) -> tuple[float, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise is_not(value, "a list of shares")
    for each in value:
        if type(each) not in (int, float) or not 0 <= each <= 1:
            raise Refused.because(f"{show(each)} is no share", "give numbers from 0 to 1")
    return tuple(float(each) for each in value)


@table
class Query:
    """A window over the events of all sensors."""

    aggregate: Setting[str, str] = setting(
        choice(*AGGREGATES), "What to calculate of their values.", example='"mean"'
    )
    size: Setting[Interval, Span] = setting(
        interval("1ms"), "How much event time a window covers.", example='"10s"'
    )
    slide: Setting[Interval | None, Span | None] = optional(
        interval("1ms"), "How often there is one.", example='"1s"', default="its size"
    )
    keyed: Setting[bool, bool] = setting(
        FLAG, "Whether each key has a result of its own.", example="true", default=False
    )
    k: Setting[int | None, int | None] = optional(
        whole(1),
        "`top_k`: how many values; `quantiles`: how exact, larger is better.",
        example="10",
        default="10, and 200",
    )
    lg_k: Setting[int | None, int | None] = optional(
        whole(4),
        "`distinct`: how exact, larger is better.",
        example="12",
        default="12",
    )
    shares: Setting[Iterable[float] | None, tuple[float, ...] | None] = optional(
        Kind[Iterable[float], tuple[float, ...]]("a list of shares", _read_shares, list),
        "`quantiles`: which ones.",
        example="[0.5, 0.99]",
        default="[0.5]",
    )

    def asked(self, name: str) -> Asked:
        """The query as the protocol carries it."""
        options = {
            option: getattr(self, option)
            for option in AGGREGATES[self.aggregate]
            if getattr(self, option) is not None
        }
        slide = self.size if self.slide is None else self.slide
        return Asked(name, self.aggregate, int(self.size), int(slide), options, self.keyed)


@table
class Layout:
    """A whole edge, checked when it is made: one `TopologyError` tells all that is wrong."""

    name: Setting[str, str] = setting(
        NAME, "What it is called.", example='"plant"', default_doc="the name of the file"
    )
    root: Setting[Root, Root] = setting(
        Kind[Root, Root]("a table", read_one(Root), shape=One(Root)),
        "Where all comes together.",
        example='{ address = "127.0.0.1:7400" }',
    )
    children: Setting[Mapping[str, Child], Named[Child]] = setting(
        Kind[Mapping[str, Child], Named[Child]](
            "tables by their names", read_some("add one as [children.NAME]"), shape=ByName(Child)
        ),
        "The nodes near the sensors.",
        example='{ c1 = { address = "127.0.0.1:7401" } }',
    )
    intermediates: Setting[Mapping[str, Intermediate], Named[Intermediate]] = setting(
        Kind[Mapping[str, Intermediate], Named[Intermediate]](
            "tables by their names", read_tables, shape=ByName(Intermediate)
        ),
        "The nodes between them and the root.",
        example='{ i1 = { address = "127.0.0.1:7421" } }',
        default=Named[Intermediate]({}),
    )
    sensors: Setting[Mapping[str, Sensor], Named[Sensor]] = setting(
        Kind[Mapping[str, Sensor], Named[Sensor]](
            "tables by their names", read_tables, shape=ByName(Sensor)
        ),
        "Those that `holdfast edge run` starts; more may come while it runs.",
        example="{ s1 = { rate = 1000 } }",
        default=Named[Sensor]({}),
    )
    queries: Setting[Mapping[str, Query], Named[Query]] = setting(
        Kind[Mapping[str, Query], Named[Query]](
            "tables by their names", read_tables, shape=ByName(Query)
        ),
        "What is asked from the start; more may be added while it runs.",
        example='{ load = { aggregate = "mean", size = "10s" } }',
        default=Named[Query]({}),
    )
    guarantee: Setting[str, str] = setting(
        choice("exactly-once", "at-least-once", "at-most-once"),
        "How often an event counts when nodes fail.",
        example='"at-least-once"',
        default="exactly-once",
    )
    sync: Setting[Interval, Span] = setting(
        interval("1ms"),
        "How often a child gives the others what changed in its partial results.",
        example='"1s"',
        default=Span(100_000),
    )
    heartbeat: Setting[Interval, Span] = setting(
        interval("1ms"),
        "How often nodes of a group say that they are alive; at most the smallest slide.",
        example='"250ms"',
        default=Span(100_000),
    )
    threshold: Setting[float, float] = setting(
        NUMBER, "The phi from which on a node is held for dead.", example="12", default=8
    )
    pause: Setting[Interval, Span] = setting(
        interval("0s"),
        "Silence that no node is suspected for, on top of what its heartbeats lead to expect.",
        example='"500ms"',
        default=Span(300_000),
    )
    detection: Setting[bool, bool] = setting(
        FLAG,
        "Whether failures are looked for and states are replicated at all; without, no fault is "
        "survived. For comparisons.",
        example="false",
        default=True,
    )
    buffer: Setting[int, int] = setting(
        whole(1),
        "How many events a sensor keeps for each partition until they are safe.",
        example="100000",
        default=200_000,
    )
    on_full: Setting[str, str] = setting(
        choice("wait", "drop"),
        "What a sensor does when that is full: take no more events, or let the oldest go.",
        example='"drop"',
        default="wait",
    )
    replication: Setting[int, int] = setting(
        whole(1),
        "How many children of a group must be there before it begins, if it has so many.",
        example="3",
        default=2,
    )
    gather: Setting[Interval, Span] = setting(
        interval("0s"),
        "How long a group with so many waits for the other nodes of this file at its first start, "
        "and the first window for the sensors of this file.",
        example='"30s"',
        default=Span(5_000_000),
    )
    ahead: Setting[Interval, Span] = setting(
        interval("0s"),
        "How far the time of an event may be ahead of the root's clock; those further ahead are "
        "refused.",
        example='"1m"',
        default=Span(10_000_000),
    )
    history: Setting[Interval, Span] = setting(
        interval("0s"),
        "How old the first event of a sensor may be, by the root's clock; windows begin there.",
        example='"400d"',
        default=Span(31 * 86_400_000_000),
    )
    spread: Setting[int, int] = setting(
        whole(1),
        "How many partitions each child has, so that those of a dead one go to several others.",
        example="4",
        default=1,
    )
    succession: Setting[str, str] = setting(
        choice("spread", "ring", "bully"),
        "Who takes over from a dead child: all others, partition by partition; the next living one "
        "by name; or the last living one by name, elected.",
        example='"ring"',
        default="spread",
    )
    routing: Setting[str, str] = setting(
        choice("round-robin", "hash", "random", "primary"),
        "How a sensor divides its events over the partitions.",
        example='"hash"',
        default="round-robin",
    )
    frame: Setting[Interval, Span] = setting(
        interval("1ms"),
        "For how long a sensor collects events before it sends them.",
        example='"10ms"',
        default=Span(50_000),
    )
    security: Setting[Security | None, Security | None] = optional(
        Kind[Security, Security]("a table", read_one(Security), shape=One(Security)),
        "What keeps strangers out: a key (`token_file` or `token_env`), or certificates.",
        example='{ token_env = "HOLDFAST_KEY" }',
    )
    home: Path = field(default_factory=Path.cwd, compare=False)
    """Where relative paths begin: the folder of the file."""

    def __post_init__(self) -> None:
        problems = [*check_fields(self), *_check_rules(self)]
        if problems:
            raise TopologyError("edge", problems)

    @classmethod
    def read(cls, path: str | Path) -> Layout:
        """The edge of a TOML file."""
        return read_whole(path, cls)

    def path(self, relative: str) -> Path:
        return self.home / relative

    def addresses(self) -> dict[str, str]:
        """Of all that listen, by name."""
        found = {ROOT: self.root.address}
        found |= {name: child.address for name, child in self.children.items()}
        found |= {name: each.address for name, each in self.intermediates.items()}
        return found

    def asked(self) -> tuple[Asked, ...]:
        """The queries of the file."""
        return tuple(query.asked(name) for name, query in self.queries.items())

    def with_child(self, name: str, address: str, group: str) -> Layout:
        """With one more child, for a group there is; the checks of a file go for it too."""
        known = self.groups()
        if group not in known:
            hint = did_you_mean(group, known)
            raise InvalidArgumentError(
                f"group: there is no {group!r} in the edge {self.name}{hint}; give one of "
                + ", ".join(sorted(known))
            )
        children = {**self.children, name: Child(address=address, group=group)}
        return replace(self, children=Named(children))

    def groups(self) -> dict[str, tuple[str, ...]]:
        """The children of each group."""
        found: dict[str, tuple[str, ...]] = {}
        for name, child in self.children.items():
            found[child.group] = (*found.get(child.group, ()), name)
        return found

    def layers(self, group: str) -> list[tuple[str, ...]]:
        """The intermediates of a group, the layer next to the children first."""
        own = {name: each for name, each in self.intermediates.items() if each.group == group}
        count = max((each.layer for each in own.values()), default=0)
        return [
            tuple(sorted(name for name, each in own.items() if each.layer == layer))
            for layer in range(1, count + 1)
        ]

    @property
    def promise(self) -> Guarantee:
        return cast(Guarantee, self.guarantee)

    def role(self, name: str) -> Literal["sensor", "child", "intermediate", "root"]:
        """What a node of this name is."""
        if name == ROOT:
            return "root"
        if name in self.children:
            return "child"
        if name in self.intermediates:
            return "intermediate"
        if name in self.sensors:
            return "sensor"
        known = [ROOT, *self.children, *self.intermediates, *self.sensors]
        raise InvalidArgumentError(
            f"node: there is no {name!r} in the edge {self.name}{did_you_mean(name, known)}; give "
            f"one of {', '.join(known)}"
        )


def _check_rules(layout: Layout) -> Iterator[Problem]:
    """How the tables fit together, where each is right by itself."""
    if not is_sound(layout, "root", "children", "intermediates", "sensors", "queries"):
        return
    yield from _check_names(layout)
    yield from _check_addresses(layout)
    yield from _check_groups(layout)
    yield from _check_queries(layout)
    yield from _check_security(layout)


def _tables(layout: Layout) -> Iterator[tuple[str, str, Any]]:
    for group in ("children", "intermediates", "sensors"):
        for name, each in getattr(layout, group).items():
            yield group, name, each


def _check_names(layout: Layout) -> Iterator[Problem]:
    seen = {ROOT: "root"}
    for group, name, _ in _tables(layout):
        place = f"{group}.{name}"
        if name in seen:
            yield Problem(place, "", f"the name is taken by [{seen[name]}]; choose another")
        seen.setdefault(name, place)


def _served(layout: Layout) -> Iterator[tuple[str, str]]:
    tables = [("root", layout.root)]
    tables += [
        (f"{group}.{name}", each) for group, name, each in _tables(layout) if group != "sensors"
    ]
    for place, each in tables:
        if isinstance(each, Root | Child | Intermediate) and is_sound(each, "address"):
            yield place, each.address


def _check_addresses(layout: Layout) -> Iterator[Problem]:
    seen: dict[tuple[str, int], str] = {}
    for place, text in _served(layout):
        host, port = parse_address(text)
        key = ("localhost" if is_loopback(host) else host.lower(), port)
        if key in seen:
            message = f"{show(text)} is that of [{seen[key]}] already; give another port"
            yield Problem(place, "address", message)
        seen.setdefault(key, place)


def _check_groups(layout: Layout) -> Iterator[Problem]:
    children = [each for each in layout.children.values() if isinstance(each, Child)]
    groups = {each.group for each in children if is_sound(each, "group")}
    for place, name, each in _tables(layout):
        known = isinstance(each, Sensor | Intermediate) and is_sound(each, "group")
        if known and each.group not in groups:
            hint = did_you_mean(each.group, groups)
            message = f"no child is of the group {show(each.group)}{hint}; give one of "
            yield Problem(f"{place}.{name}", "group", message + ", ".join(sorted(groups)))
    layers = {
        (each.group, each.layer)
        for each in layout.intermediates.values()
        if isinstance(each, Intermediate) and is_sound(each, "layer", "group")
    }
    for name, each in layout.intermediates.items():
        if isinstance(each, Intermediate) and is_sound(each, "layer", "group"):
            missing = [at for at in range(1, each.layer) if (each.group, at) not in layers]
            if missing:
                message = f"there is no layer {missing[0]} below it; give layers from 1 on"
                yield Problem(f"intermediates.{name}", "layer", message)


def _keyless(layout: Layout) -> list[str]:
    """The sensors that are known to send events without a key."""
    return [
        name
        for name, sensor in layout.sensors.items()
        if isinstance(sensor, Sensor) and is_sound(sensor, "input", "keys")
        if sensor.input == "simulated" and not sensor.keys
    ]


def _check_queries(layout: Layout) -> Iterator[Problem]:
    for name, query in layout.queries.items():
        place = f"queries.{name}"
        if not isinstance(query, Query) or not is_sound(query, "aggregate", "size", "slide"):
            continue
        taken = AGGREGATES[query.aggregate]
        for option in ("k", "lg_k", "shares"):
            if getattr(query, option) is not None and option not in taken:
                owners = [each for each, options in AGGREGATES.items() if option in options]
                message = f"is for {' and '.join(owners)}, not for {query.aggregate}; leave it out"
                yield Problem(place, option, message)
        if query.keyed is True:
            for sensor in _keyless(layout):
                message = f"sensors.{sensor} has no keys: nothing of it would be in the results"
                yield Problem(place, "keyed", f"{message}; give it keys, or leave `keyed` out")
        slide = query.size if query.slide is None else query.slide
        if slide > query.size:
            message = f"{slide} is longer than the size, {query.size}; events would be left out"
            yield Problem(place, "slide", f"{message}; give at most the size")
        elif is_sound(layout, "heartbeat") and layout.heartbeat > gcd(query.size, slide):
            pane = Span(gcd(query.size, slide))
            message = f"is longer than the panes of [{place}], {pane}; give at most that"
            yield Problem("", "heartbeat", message)


def _check_security(layout: Layout) -> Iterator[Problem]:
    security = layout.security
    outside = [each for each in _served(layout) if not is_loopback(parse_address(each[1]).host)]
    if not isinstance(security, Security):
        for place, text in outside:
            yield Problem(
                place,
                "address",
                f"{show(text)} can be reached by other machines; add [security] with a key "
                "(token_file or token_env) or with certificates, or use 127.0.0.1",
            )
        return
    if security.token_file is not None and security.token_env is not None:
        yield Problem("security", "token_env", "token_file is given too; leave one of them out")
    given = [
        name for name in ("certificate", "key", "authority") if getattr(security, name) is not None
    ]
    if given and len(given) < 3:
        for name in ("certificate", "key", "authority"):
            if name not in given:
                yield Problem(
                    "security", name, "is missing; certificate, key and authority go together"
                )
    if not given and security.token_file is None and security.token_env is None:
        yield Problem(
            "security",
            "token_file",
            "is missing; give it, token_env or certificates, or leave [security] out",
        )
