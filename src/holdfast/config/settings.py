"""Declaration of the fields of a settings table.

A table is a frozen dataclass, and each of its fields a `Setting`: what kind of value it takes, what
it is for, an example. The reader of files, the checks and the reference all go by these.

A setting converts what it is given, `"500ms"` into microseconds. What it cannot convert it keeps as
it is: a topology is checked as a whole, and tells everything that is wrong at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast, dataclass_transform, overload

from holdfast.config.problems import show

Given = TypeVar("Given")
Kept = TypeVar("Kept")
Table = TypeVar("Table")
Listed = TypeVar("Listed", covariant=True)


class _Required:
    """In the place of a value that must be given and was not."""

    def __repr__(self) -> str:
        return "(missing)"

    def __reduce__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()


class Fault(NamedTuple):
    """What is wrong with a value."""

    part: str
    """Which part of it, such as ` #2` of a list; empty for all of it."""
    message: str
    remedy: str | None
    """None: the example of the field."""


class Refused(Exception):  # noqa: N818 (it never reaches a user)
    """A value is not of its kind."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__(*faults)
        self.faults = faults

    @classmethod
    def because(cls, message: str, remedy: str | None = None) -> Refused:
        return cls(Fault("", message, remedy))


@dataclass(frozen=True)
class One:
    """A table of its own."""

    table: type


@dataclass(frozen=True)
class ByName:
    """Tables under names."""

    table: type


@dataclass(frozen=True)
class InList:
    """A list of tables."""

    table: type


@dataclass(frozen=True)
class Inline:
    """One of several tables, named by the field; its fields stand beside it."""

    tables: Mapping[str, type]


@dataclass(frozen=True)
class Steps:
    """A list of steps, each one of several tables: `flat` ones are the item itself, the others
    stand under their name in it."""

    flat: Mapping[str, type]
    nested: Mapping[str, type]


Shape = One | ByName | InList | Inline | Steps
"""How the tables within a value stand in the file."""


@dataclass(frozen=True)
class Kind(Generic[Given, Kept]):
    """A kind of value."""

    what: str
    """With its article: `an interval`."""
    read: Callable[[Any], Kept]
    """Makes what is kept of what is given, and of what is kept the same; raises `Refused`."""
    write: Callable[[Any], Any] = lambda kept: kept
    """Makes a value for the file of what is kept."""
    shape: Shape | None = None


class Setting(Generic[Given, Kept]):
    """One field of a table. To the dataclass it is a descriptor that takes `Given` and answers
    `Kept`."""

    def __init__(
        self,
        kind: Kind[Given, Kept],
        doc: str,
        example: Any,
        default: Any,
        default_doc: str | None = None,
    ) -> None:
        self.kind = kind
        self.doc = doc
        self.example = example
        self.default = default
        self.default_doc = default_doc
        """What the default is, where it follows from something else."""
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, table: None, owner: type) -> Any: ...

    @overload
    def __get__(self, table: object, owner: type) -> Kept: ...

    def __get__(self, table: object | None, owner: type) -> Any:
        # The dataclass asks its class for the default.
        return self.default if table is None else table.__dict__[self.name]

    def __set__(self, table: object, value: Given) -> None:
        try:
            table.__dict__[self.name] = self.read(value)
        except Refused:
            table.__dict__[self.name] = value

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED

    def read(self, value: Any) -> Any:
        """What is kept of the value."""
        if value is None and self.default is None:
            return None
        if value is REQUIRED:
            raise Refused.because("is missing")
        return self.kind.read(value)

    def faults(self, value: Any) -> Iterator[tuple[str, str]]:
        """What is wrong with a value: which part of it, and a message with the remedy."""
        try:
            self.read(value)
        except Refused as refused:
            for fault in refused.faults:
                remedy = fault.remedy
                if remedy is None:
                    remedy = f"give {self.kind.what}, such as {self.name} = {self.example}"
                yield fault.part, f"{fault.message}; {remedy}"


def setting(
    kind: Kind[Given, Kept],
    doc: str,
    *,
    example: str,
    default: Any = REQUIRED,
    default_doc: str | None = None,
) -> Setting[Given, Kept]:
    """A field that must be given, unless it has a default. `example`: as written in a file."""
    return Setting(kind, doc, example, default, default_doc)


def optional(
    kind: Kind[Given, Kept], doc: str, *, example: str, default: str = "none"
) -> Setting[Given | None, Kept | None]:
    """A field that may be left out; `default` says in words what that means."""
    # It reads None before its kind is asked.
    wider = cast(Kind[Given | None, Kept | None], kind)
    return Setting(wider, doc, example, None, default)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def table(cls: type[Table]) -> type[Table]:
    """Makes a frozen dataclass of a class whose fields are settings."""
    return dataclass(frozen=True)(cls)


def settings_of(table: type) -> Mapping[str, Setting[Any, Any]]:
    """The fields of a table, in their order."""
    return {name: each for name, each in vars(table).items() if isinstance(each, Setting)}


def is_sound(table: object, *names: str) -> bool:
    """Whether these fields hold what they should, so that more can be asked of them."""
    settings = settings_of(type(table))
    return not any(True for name in names for _ in settings[name].faults(getattr(table, name)))


class Named(Mapping[str, Listed]):
    """Tables by their names: a mapping that never changes."""

    __slots__ = ("_tables",)

    def __init__(self, tables: Mapping[str, Listed]) -> None:
        self._tables = dict(tables)

    def __getitem__(self, name: str) -> Listed:
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def __hash__(self) -> int:
        return hash(frozenset(self._tables.items()))

    def __repr__(self) -> str:
        return repr(self._tables)


def is_not(value: Any, what: str) -> Refused:
    """The refusal of a value that is something else altogether."""
    return Refused.because(f"{show(value)} is not {what}")


def read_tables(value: Any) -> Named[Any]:
    """Tables by their names, of which there may be none."""
    if not isinstance(value, Mapping):
        raise is_not(value, "tables by their names")
    return value if isinstance(value, Named) else Named(value)


def read_some(remedy: str) -> Callable[[Any], Named[Any]]:
    """Tables by their names, at least one; else `remedy` says what to do."""

    def read(value: Any) -> Named[Any]:
        tables = read_tables(value)
        if not tables:
            raise Refused.because("there is none", remedy)
        return tables

    return read


def read_one(kind: type[Table]) -> Callable[[Any], Table]:
    """One table of this kind."""

    def read(value: Any) -> Table:
        if not isinstance(value, kind):
            raise is_not(value, "a table")
        return value

    return read
