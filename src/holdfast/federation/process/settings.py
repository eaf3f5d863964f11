"""The file of a participant: costs of its load, partners, contracts.

Read from TOML or made in Python of the same dataclasses, with the same checks: one error tells all
that is wrong, each with its table, field and remedy. Starts nothing. It is private: partners have
files of their own, which say the same of the contracts between them and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from holdfast.config.addresses import is_loopback, parse_address
from holdfast.config.durations import Span
from holdfast.config.fields import (
    ADDRESS,
    FLAG,
    NAME,
    NAMES,
    NUMBER,
    TEXT,
    Interval,
    choice,
    interval,
    whole,
)
from holdfast.config.problems import Problem, TopologyError
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
    read_tables,
    setting,
    table,
)
from holdfast.config.toml_files import read_whole
from holdfast.config.validation import check_fields
from holdfast.errors import InvalidArgumentError
from holdfast.federation.machine import (
    Contract,
    Contracts,
    Costs,
    Curve,
    Load,
    Rules,
    Units,
    check_cost,
    points,
    power,
    queueing,
)
from holdfast.storage.signing import KEY_SIZE

REACH: Final = 2.0
"""Up to so many times what there is, costs are checked."""


def _read_points(value: Any) -> tuple[tuple[float, float], ...]:
    if not isinstance(value, list | tuple):
        raise is_not(value, "a list of points")
    for each in value:
        is_pair = isinstance(each, list | tuple) and len(each) == 2
        if not is_pair or not all(type(number) in (int, float) for number in each):
            raise Refused.because(f"{each!r} is no point", "give [share, cost] each")
    return tuple((float(share), float(cost)) for share, cost in value)


def _read_share(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value < 1:
        raise is_not(value, "a share from 0 to below 1")
    return float(value)


def _read_weight(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value < float("inf"):
        raise is_not(value, "a number from 0 on")
    return float(value)


SHARE: Final = Kind[float, float]("a share from 0 to below 1", _read_share)
WEIGHT: Final = Kind[float, float]("a number from 0 on", _read_weight)


@table
class Resource:
    """What a resource costs as it fills up."""

    curve: Setting[str, str] = setting(
        choice("queueing", "power", "points"),
        "`queueing`: x / (1 - x) up to the knee, a parabola beyond. `power`: scale * x ^ exponent. "
        "`points`: lines between points.",
        example='"power"',
        default="queueing",
    )
    scale: Setting[float, float] = setting(
        NUMBER, "What the curve is multiplied by, in your money.", example="2.5", default=1.0
    )
    knee: Setting[float, float] = setting(
        SHARE, "`queueing`: where the parabola begins.", example="0.9", default=0.95
    )
    exponent: Setting[float, float] = setting(
        NUMBER, "`power`: 1 or more.", example="3", default=2.0
    )
    points: Setting[Iterable[tuple[float, float]] | None, Any] = optional(
        Kind[Iterable[tuple[float, float]], Any]("a list of points", _read_points, list),
        "`points`: [share in use, cost] each, from share 0 on, ever steeper.",
        example="[[0, 0], [0.5, 1], [1, 4]]",
    )

    def make(self) -> Curve:
        match self.curve:
            case "power":
                return power(self.scale, self.exponent)
            case "points":
                if self.points is None:
                    raise InvalidArgumentError("points: are missing; give two or more")
                return points([(share, self.scale * cost) for share, cost in self.points])
        return queueing(self.knee, self.scale)


def _resource(what: str) -> Setting[Resource, Resource]:
    return setting(
        Kind[Resource, Resource]("a table", read_one(Resource), shape=One(Resource)),
        what,
        example='{ curve = "queueing" }',
        default=Resource(),
    )


@table
class Partner:
    """Somebody with whom there may be contracts."""

    address: Setting[str, str] = setting(
        ADDRESS, "Where its load manager listens.", example='"127.0.0.1:7502"'
    )
    public: Setting[str, str] = setting(
        TEXT, "Its public key, as `holdfast contracts key` prints it.", example='"8f0c..."'
    )


@table
class Price:
    """A contract with a partner, in one direction."""

    price: Setting[float, float] = setting(
        NUMBER, "The most that a unit of load costs for a duration.", example="4.0"
    )
    low: Setting[float | None, float | None] = optional(
        NUMBER, "The least; between them it is found out.", example="3.2", default="the price"
    )
    duration: Setting[Interval | None, Span | None] = optional(
        interval("1s"),
        "How long a move lasts at least; then it is paid for again, or comes back.",
        example='"10m"',
        default="for ever",
    )
    cpu: Setting[float, float] = setting(
        WEIGHT, "The units that all of a cpu share counts.", example="1", default=1.0
    )
    bandwidth: Setting[float, float] = setting(
        WEIGHT, "The units that all of the bandwidth counts.", example="0.5", default=0.0
    )
    kinds: Setting[Iterable[str] | None, tuple[str, ...] | None] = optional(
        NAMES, "The kinds of tasks that may be moved.", example='["public"]', default="all"
    )
    onward: Setting[bool, bool] = setting(
        FLAG, "Whether the seller may hand tasks on.", example="false", default=True
    )
    rank: Setting[int, int] = setting(
        whole(0), "Of equal prices, lower ranks are asked first.", example="1", default=0
    )

    def make(self, buyer: str, seller: str) -> Contract:
        return Contract(
            buyer,
            seller,
            self.price,
            self.price if self.low is None else self.low,
            duration=None if self.duration is None else int(self.duration),
            units=Units(self.cpu, self.bandwidth),
            kinds=None if self.kinds is None else frozenset(self.kinds),
            onward=self.onward,
            rank=self.rank,
        )


@table
class Work:
    """A task that this participant can run: a stage of the topology, by a replica of its own."""

    replica: Setting[str, str] = setting(
        TEXT, "The replica that runs it here, as the topology calls it.", example='"clean/1"'
    )
    own: Setting[bool, bool] = setting(
        FLAG, "Whether it is a task of this participant's clients.", example="true", default=False
    )
    kind: Setting[str, str] = setting(
        NAME, "What contracts may allow or not.", example='"public"', default="stage"
    )
    load: Setting[float, float] = setting(
        NUMBER, "Its share of the cpu, until it is measured.", example="0.2", default=0.1
    )

    @property
    def stage(self) -> str:
        """Whose replicas are kept at different participants."""
        return self.replica.partition("/")[0]


def _by_name(kind: type, what: str, example: str) -> Any:
    return setting(
        Kind[Any, Any]("tables by their names", read_tables, shape=ByName(kind)),
        what,
        example=example,
        default=Named[Any]({}),
    )


@table
class Participant:
    """A whole participant, checked when it is made: one `TopologyError` tells all that is wrong."""

    name: Setting[str, str] = setting(
        NAME, "What partners call it.", example='"north"', default_doc="the name of the file"
    )
    address: Setting[str, str] = setting(
        ADDRESS, "Where its load manager listens.", example='"127.0.0.1:7501"'
    )
    key: Setting[str, str] = setting(
        TEXT, "The file with its secret key, relative to this file.", example='"north.key"'
    )
    folder: Setting[str, str] = setting(
        TEXT, "Where its journal is, relative to this file.", example='"north"', default="state"
    )
    topology: Setting[str | None, str | None] = optional(
        TEXT, "The topology whose stages are its tasks.", example='"grid.toml"'
    )
    capacity: Setting[float, float] = setting(
        NUMBER, "The share of its cpu that it wants to use at most.", example="0.8", default=0.9
    )
    cpu: Setting[Resource, Resource] = _resource("What its cpu costs.")
    bandwidth: Setting[Resource, Resource] = _resource("What its bandwidth costs.")
    bytes_per_second: Setting[float, float] = setting(
        NUMBER, "All of its bandwidth.", example="1e8", default=125_000_000.0
    )
    rows_per_second: Setting[float | None, float | None] = optional(
        NUMBER,
        "Rows a second that take all of its cpu: loads are then counted in rows.",
        example="20_000",
        default="loads are the time that Spark is busy",
    )
    window: Setting[Interval, Span] = setting(
        interval("1s"),
        "Over how long loads are smoothed.",
        example='"1m"',
        default=Span(30_000_000),
    )
    period: Setting[Interval, Span] = setting(
        interval("100ms"),
        "Between two rounds of offers.",
        example='"30s"',
        default=Span(10_000_000),
    )
    patience: Setting[Interval, Span] = setting(
        interval("1s"),
        "Silence after which a partner's tasks come home.",
        example='"1m"',
        default=Span(10_000_000),
    )
    prepare: Setting[Interval, Span] = setting(
        interval("1s"),
        "How long a partner may take to start a stage and catch up; then it stays here.",
        example='"5m"',
        default=Span(120_000_000),
    )
    margin: Setting[float, float] = setting(
        SHARE, "The share of a price by which a move must pay.", example="0.05", default=0.02
    )
    migration: Setting[float, float] = setting(
        WEIGHT, "What a move of a task costs, in your money.", example="0.1", default=0.0
    )
    competitors: Setting[int, int] = setting(
        whole(0), "Sellers that bids reckon with; 0 bids what it is worth.", example="5", default=0
    )
    partners: Setting[Mapping[str, Partner], Named[Partner]] = _by_name(
        Partner, "Whom it knows.", '{ south = { address = "127.0.0.1:7502", public = "8f0c..." } }'
    )
    buys: Setting[Mapping[str, Price], Named[Price]] = _by_name(
        Price, "Contracts by which it may hand tasks to a partner.", "{ south = { price = 4.0 } }"
    )
    sells: Setting[Mapping[str, Price], Named[Price]] = _by_name(
        Price, "Contracts by which a partner may hand it tasks.", "{ south = { price = 4.0 } }"
    )
    tasks: Setting[Mapping[str, Work], Named[Work]] = _by_name(
        Work, "What it can run.", '{ clean = { replica = "clean/1", own = true } }'
    )
    security: Setting[Security | None, Security | None] = optional(
        Kind[Security, Security]("a table", read_one(Security), shape=One(Security)),
        "Token and certificates of the load managers; the same at all of them.",
        example='{ token_env = "HOLDFAST_TOKEN" }',
    )
    home: Path = field(default_factory=Path.cwd, compare=False)
    """Where relative paths begin: the folder of the file."""

    def __post_init__(self) -> None:
        problems = [*check_fields(self), *_check_rules(self)]
        if problems:
            raise TopologyError("participant", problems)

    @classmethod
    def read(cls, path: str | Path) -> Participant:
        """The participant of a TOML file."""
        return read_whole(path, cls)

    @property
    def cost(self) -> Costs:
        return Costs(self.cpu.make(), self.bandwidth.make())

    @property
    def most(self) -> Load:
        return Load(self.capacity)

    def contracts(self) -> Contracts:
        buying = [price.make(self.name, partner) for partner, price in self.buys.items()]
        selling = [price.make(partner, self.name) for partner, price in self.sells.items()]
        return Contracts(self.name, [*buying, *selling])

    def rules(self) -> Rules:
        return Rules(
            period=int(self.period),
            patience=int(self.patience),
            prepare=int(self.prepare),
            margin=self.margin,
            migration=self.migration,
            competitors=self.competitors,
        )

    def path(self, relative: str) -> Path:
        return self.home / relative


def _check_rules(participant: Participant) -> Iterator[Problem]:
    if not is_sound(participant, "partners", "buys", "sells", "tasks", "name"):
        return
    yield from _check_costs(participant)
    yield from _check_partners(participant)
    yield from _check_contracts(participant)
    yield from _check_tasks(participant)


def _check_costs(participant: Participant) -> Iterator[Problem]:
    if not is_sound(participant, "cpu", "bandwidth"):
        return
    for name in ("cpu", "bandwidth"):
        resource = getattr(participant, name)
        if not is_sound(resource, "curve", "scale", "knee", "exponent", "points"):
            return
        try:
            resource.make()
        except InvalidArgumentError as error:
            yield Problem(name, "", str(error))
            return
    try:
        check_cost(participant.cost, REACH)
    except InvalidArgumentError as error:
        yield Problem("", "cpu", str(error))


def _check_partners(participant: Participant) -> Iterator[Problem]:
    for name, partner in participant.partners.items():
        place = f"partners.{name}"
        if name == participant.name:
            yield Problem(place, "", "is this participant itself; leave it out")
        is_table = isinstance(partner, Partner) and is_sound(partner, "public")
        if is_table and not _is_key(partner.public):
            message = f"is no key; give the {2 * KEY_SIZE} digits of `holdfast contracts key`"
            yield Problem(place, "public", message)
    if not is_sound(participant, "address", "security") or participant.security is not None:
        return
    if not is_loopback(parse_address(participant.address).host):
        message = "can be reached by other machines; add [security] with a token and certificates"
        yield Problem("", "address", message)


def _is_key(text: str) -> bool:
    try:
        return len(bytes.fromhex(text)) == KEY_SIZE
    except ValueError:
        return False


def _check_contracts(participant: Participant) -> Iterator[Problem]:
    for side in ("buys", "sells"):
        for name, price in getattr(participant, side).items():
            place = f"{side}.{name}"
            if name not in participant.partners:
                yield Problem(place, "", f"there is no such partner; add [partners.{name}]")
            if not isinstance(price, Price) or any(check_fields(price)):
                continue
            try:
                price.make(participant.name, name)
            except InvalidArgumentError as error:
                yield Problem(place, "", str(error))


def _check_tasks(participant: Participant) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    stages: dict[str, str] = {}
    for name, work in participant.tasks.items():
        if not isinstance(work, Work) or not is_sound(work, "replica", "own"):
            continue
        if work.own and work.stage in stages:
            message = (
                f"is of the stage {work.stage}, as [tasks.{stages[work.stage]}] is; replicas of a "
                "stage run at different participants: let a partner own one"
            )
            yield Problem(f"tasks.{name}", "replica", message)
        if work.own:
            stages.setdefault(work.stage, name)
        if work.replica in seen:
            message = f"runs [tasks.{seen[work.replica]}] already; give each its own"
            yield Problem(f"tasks.{name}", "replica", message)
        seen.setdefault(work.replica, name)
    if participant.tasks and participant.topology is None:
        yield Problem("", "topology", "is missing, but there are tasks; say whose stages they are")
