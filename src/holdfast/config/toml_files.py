"""Reading of a TOML file into the values of settings.

Only what a file alone can get wrong is judged here: its size, its syntax, fields that are unknown.
All values go on as they are, right or wrong, to the checks that topologies made in Python go
through too.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from holdfast.config.problems import Problem, TopologyError, did_you_mean
from holdfast.config.settings import ByName, Inline, InList, One, Setting, Steps, settings_of

Whole = TypeVar("Whole")

LARGEST_FILE: Final = 256 * 1024
MOST_UNKNOWN: Final = 1_000


def read_whole(path: str | Path, table: type[Whole]) -> Whole:
    """The table that a file is, made and checked as a whole; one error tells all that is wrong.
    Without a name of its own it has that of the file."""
    place = str(path)
    reader = _Reader()
    values = reader.read_fields(table, _parse(place, _read_text(place, path)), "", "")
    values.setdefault("name", Path(path).stem)
    values["home"] = Path(path).absolute().parent
    try:
        whole = table(**values)
    except TopologyError as error:
        raise TopologyError(place, [*reader.problems, *error.problems]) from None
    if reader.problems:
        raise TopologyError(place, reader.problems)
    return whole


def _read_text(place: str, path: str | Path) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _unreadable(
            place, f"cannot be read ({reason}); give a TOML file that is there"
        ) from error
    if len(data) > LARGEST_FILE:
        message = f"has more than {LARGEST_FILE // 1024} KiB; make several files of it"
        raise _unreadable(place, message)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"is not UTF-8 in line {line}; save it in that encoding"
        raise _unreadable(place, message) from error


def _parse(place: str, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise _unreadable(place, "nests too deeply; its tables are flat") from None
    except ValueError as error:  # Syntax, or a number of too many digits.
        raise _unreadable(place, f"is no TOML: {error}; mend it there") from error


def _unreadable(place: str, message: str) -> TopologyError:
    return TopologyError(place, [Problem("", "", message)])


class _Reader:
    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def read_fields(
        self, table: type, raw: Mapping[str, Any], place: str, prefix: str
    ) -> dict[str, Any]:
        """The values of the fields that the table has; what else is there is a problem."""
        settings = settings_of(table)
        values: dict[str, Any] = {}
        others: dict[str, Any] = {}
        for name, value in raw.items():
            if name in settings:
                values[name] = self._read_value(settings[name], value, place, prefix)
            else:
                others[name] = value
        known = list(settings)
        for name, setting in settings.items():
            if isinstance(setting.kind.shape, Inline):
                shape, word = setting.kind.shape, raw.get(name)
                if isinstance(word, str) and word in shape.tables:
                    values[name] = self._read_inline(name, word, shape, others, place, prefix)
                    known += settings_of(shape.tables[word])
                else:
                    # Which table is meant cannot be told: what any of them has may be right.
                    known += dict.fromkeys(
                        field for each in shape.tables.values() for field in settings_of(each)
                    )
                    others = {field: raw[field] for field in others if field not in known}
        self._refuse(others, known, place, prefix)
        return values

    def _read_table(self, table: type, raw: Any, place: str, prefix: str) -> Any:
        if not isinstance(raw, dict):
            return raw
        return table(**self.read_fields(table, raw, place, prefix))

    def _read_value(self, setting: Setting[Any, Any], raw: Any, place: str, prefix: str) -> Any:
        name = setting.name
        match setting.kind.shape:
            case One(table):
                return self._read_table(table, raw, name, "")
            case ByName(table) if isinstance(raw, dict):
                return {
                    key: self._read_table(table, value, f"{name}.{key}", "")
                    for key, value in raw.items()
                }
            case InList(table) if isinstance(raw, list):
                return [
                    self._read_table(table, value, place, f"{prefix}{name} #{number} ")
                    for number, value in enumerate(raw, 1)
                ]
            case Steps() as steps if isinstance(raw, list):
                return [
                    self._read_step(steps, value, place, f"{prefix}{name} #{number} ")
                    for number, value in enumerate(raw, 1)
                ]
        return raw

    def _read_inline(
        self, name: str, word: str, shape: Inline, others: dict[str, Any], place: str, prefix: str
    ) -> Any:
        """The table that the word names, made of the fields beside it, which leave `others`."""
        table = shape.tables[word]
        mine = {field: others.pop(field) for field in settings_of(table) if field in others}
        for field in list(others):
            owners = [each for each, kind in shape.tables.items() if field in settings_of(kind)]
            if owners:
                del others[field]
                message = f"is not for {name} = {word!r} but for {', '.join(owners)}"
                self.problems.append(Problem(place, f"{prefix}{field}", f"{message}; leave it out"))
        return self._read_table(table, mine, place, prefix)

    def _read_step(self, steps: Steps, raw: Any, place: str, prefix: str) -> Any:
        if not isinstance(raw, dict):
            return raw
        words = [word for word in (*steps.flat, *steps.nested) if word in raw]
        if len(words) != 1 or (words[0] in steps.nested and not isinstance(raw[words[0]], dict)):
            return raw
        (word,) = words
        if word in steps.flat:
            return self._read_table(steps.flat[word], raw, place, prefix)
        self._refuse([key for key in raw if key != word], [word], place, prefix)
        return self._read_table(steps.nested[word], raw[word], place, f"{prefix}{word}.")

    def _refuse(self, others: Iterable[str], known: Iterable[str], place: str, prefix: str) -> None:
        for name in others:
            if len(self.problems) >= MOST_UNKNOWN:
                return
            remedy = f"leave it out, or use one of {', '.join(known)}"
            message = f"there is no such field{did_you_mean(name, known)}; {remedy}"
            self.problems.append(Problem(place, f"{prefix}{name}", message))
