"""Files that describe a job.

Three kinds. A Python file that makes a `Job`. A file of Spark SQL, whose views are the stages:

    CREATE TEMPORARY VIEW readings USING parquet OPTIONS (path 'readings/*.parquet');
    CREATE TEMPORARY VIEW hourly AS SELECT ... FROM readings GROUP BY ...;

And a PySpark program that marks boundaries with `verified(df, "name")`; each boundary is a stage.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import InvalidArgumentError
from holdfast.verify.machine import Plan
from holdfast.verify.process.boundaries import target_of
from holdfast.verify.process.jobs import Job, Make, check_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


BOUNDARIES: Final = "BOUNDARIES"
"""What a program calls the list of its boundaries if its calls do not show their names."""
WRITES: Final = "WRITES"
"""Likewise of those boundaries that are written."""
MARK: Final = "verified"
WRITE: Final = "verified_write"
SOURCES: Final = "SOURCES"
"""What a program calls the list of paths and patterns of the files that it reads."""

_PARSING: Final = Lock()
"""Threads that build syntax trees at once disturb each other in Python 3.11.7 (a `SystemError` on
the depth of recursion, CPython issue 106905), if the garbage collector lets another go on."""

_TOKEN: Final = re.compile(
    r"(?P<comment>--[^\n]*|/\*.*?\*/)"
    r"|(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<name>`(?:[^`]|``)+`|[A-Za-z_]\w*)"
    r"|(?P<end>;)"
    r"|(?P<other>.)",
    re.DOTALL,
)
_VIEW: Final = r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMP(?:ORARY)?\s+)?VIEW\s+(?P<name>`[^`]+`|\w+)"
_STAGE: Final = re.compile(_VIEW + r"\s+AS\s+(?P<query>.+)", re.IGNORECASE | re.DOTALL)
_SOURCE: Final = re.compile(
    _VIEW
    + r"\s*(?:\((?P<schema>.+?)\)\s*)?\s+USING\s+(?P<format>\w+)"
    + r"\s+OPTIONS\s*\((?P<options>.*)\)\s*",
    re.IGNORECASE | re.DOTALL,
)
_OPTION: Final = re.compile(
    r"\s*(?:'(?P<quoted>[^']*)'|(?P<plain>[\w.]+))\s*=?\s*'(?P<value>[^']*)'\s*(?:,|$)"
)


@dataclass(frozen=True)
class Program:
    """PySpark code that runs from top to bottom and marks boundaries on its way."""

    name: str
    path: Path
    code: bytes
    boundaries: tuple[str, ...]
    writes: tuple[str, ...] = ()
    """Those boundaries of which nothing is read: the program has them written. Each is followed by
    its target."""
    sources: tuple[str, ...] = ()
    """Paths and patterns of the files that it reads, if it lists them."""
    slices: int = 8

    @property
    def plan(self) -> Plan:
        """What the code does between boundaries is not known: each may read all before it that can
        be read."""
        unread = {*self.writes, *map(target_of, self.writes)}
        stages: dict[str, list[str]] = {}
        for name in self.boundaries:
            stages[name] = [each for each in stages if each not in unread]
        return Plan(stages, self.slices)


def load_job(
    path: str | Path, code: bytes | None = None, arguments: Sequence[str] = ()
) -> Job | Program:
    """What the file describes. A file that makes a `Job` is run for that, with these arguments; a
    program is not. `code`: what to take for the file's content."""
    path = Path(path)
    code = read_code(path) if code is None else code
    try:
        text = code.decode()
    except UnicodeError as error:
        raise _unreadable(path, str(error)) from None
    match path.suffix:
        case ".sql":
            if arguments:
                raise InvalidArgumentError(
                    f"{path}: is SQL, which takes no arguments; leave out what follows '--'"
                )
            return _load_sql(path, text)
        case ".py":
            return _load_python(path, code, arguments)
    raise InvalidArgumentError(f"{path}: is neither Python nor SQL; give a file .py or .sql")


def read_code(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None


def parse_code(path: Path, code: bytes) -> ast.Module:
    try:
        with _PARSING:
            return ast.parse(code, str(path))
    except SyntaxError as error:
        raise InvalidArgumentError(
            f"{path}: line {error.lineno}: {error.msg}; mend it there"
        ) from None


def run_code(path: Path, code: bytes, name: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Run what was read of a Python file, as Python would run the file; its names."""
    module = ModuleType(name)
    module.__file__ = str(path)
    before, argv = sys.modules.get(name), sys.argv
    sys.modules[name] = module
    sys.argv = [str(path), *arguments]
    try:
        exec(compile(code, str(path), "exec"), module.__dict__)
    finally:
        sys.argv = argv
        if before is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = before
    return module.__dict__


def _unreadable(path: Path, reason: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{path}: cannot be read ({reason}); give a file that describes a job"
    )


def _load_python(path: Path, code: bytes, arguments: Sequence[str]) -> Job | Program:
    tree = parse_code(path, code)
    if not any(True for _ in _calls(tree, "Job")):
        return _load_program(path, code, tree)
    found = {
        id(each): each
        for each in run_code(path, code, "holdfast_job", arguments).values()
        if isinstance(each, Job)
    }
    if len(found) != 1:
        raise InvalidArgumentError(f"{path}: makes {len(found)} jobs; make one, at its top level")
    (job,) = found.values()
    if not job.stages:
        raise InvalidArgumentError(f"{path}: job {job.name} has no stages; add one")
    return job


def _load_program(path: Path, code: bytes, tree: ast.Module) -> Program:
    names = _listed(path, tree, BOUNDARIES) or _named(path, tree, (MARK, WRITE), BOUNDARIES)
    writes = _listed(path, tree, WRITES) or _named(path, tree, (WRITE,), WRITES)
    if not names:
        raise InvalidArgumentError(
            f"{path}: makes no Job and marks no boundary; see the examples of holdfast.verify.Job "
            "and holdfast.verify.verified"
        )
    for name in writes:
        if name not in names:
            raise InvalidArgumentError(f"{path}: {BOUNDARIES} does not list {name!r}; add it there")
        names.insert(names.index(name) + 1, target_of(name))
    for name in names:
        check_name(f"{path}: boundary", name)
        if names.count(name) > 1:
            raise InvalidArgumentError(
                f"{path}: two boundaries are called {name!r}; give them different names"
            )
    check_name(f"{path}: name of the job, which is that of the file", path.stem)
    sources = tuple(_listed(path, tree, SOURCES))
    return Program(path.stem, path.resolve(), code, tuple(names), tuple(writes), sources)


def _listed(path: Path, tree: ast.Module, wanted: str) -> list[str]:
    """The texts that are assigned to a name at the top of the file."""
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == wanted:
                try:
                    listed = ast.literal_eval(value)
                except ValueError:
                    listed = None
                if isinstance(listed, list | tuple) and all(isinstance(n, str) for n in listed):
                    return list(listed)
                raise InvalidArgumentError(
                    f"{path}: line {statement.lineno}: {wanted} is no list of texts; write them out"
                )
    return []


def _named(path: Path, tree: ast.Module, functions: Sequence[str], listed: str) -> list[str]:
    """The names that these calls are given."""
    names = []
    for call in _calls(tree, *functions):
        given = [each.value for each in call.keywords if each.arg == "name"]
        match [*call.args[1:2], *given]:
            case [ast.Constant(value=str(name))]:
                names.append(name)
            case _:
                raise InvalidArgumentError(
                    f"{path}: line {call.lineno}: the name of this boundary is not written out; do "
                    f"so, or list all names in {listed} = [...] at the top of the file"
                )
    return names


def _calls(tree: ast.Module, *names: str) -> Iterator[ast.Call]:
    """Calls of functions of these names, in the order in which they stand in the file."""
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and {getattr(node.func, "id", None), getattr(node.func, "attr", None)} & set(names)
    ]
    # The inner one of two that begin together is called first.
    yield from sorted(calls, key=lambda call: (call.end_lineno, call.end_col_offset))


def _load_sql(path: Path, text: str) -> Job:
    job = Job(path.stem, folder=path.resolve().parent)
    for line, statement in _statements(text):
        place = f"{path}: line {line}"
        try:
            _add_view(job, place, statement)
        except InvalidArgumentError as error:
            message = str(error).removeprefix(f"{place}: ")
            raise InvalidArgumentError(f"{place}: {message}") from None
    if not job.stages:
        raise InvalidArgumentError(f"{path}: has no CREATE TEMPORARY VIEW ... AS; add a stage")
    return job


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Each with the line that it begins in, without comments."""
    line, begun, parts = 1, 1, [""]
    for token in [*_TOKEN.finditer(text), None]:
        if token is None or token.lastgroup == "end":
            if statement := "".join(parts).strip():
                yield begun, statement
            parts = [""]
            continue
        if token.lastgroup == "comment":
            parts.append(" ")
        else:
            if not "".join(parts).strip():
                begun = line
            parts.append(token.group())
        line += token.group().count("\n")


def _add_view(job: Job, place: str, statement: str) -> None:
    if stage := _STAGE.fullmatch(statement):
        known = {name.lower(): name for name in [*job.sources, *job.stages]}
        inputs = tuple(
            dict.fromkeys(known[name] for name in _names_in(stage["query"]) if name in known)
        )
        job.stage(name=stage["name"].strip("`"), inputs=inputs)(_query(stage["query"], inputs))
    elif source := _SOURCE.fullmatch(statement):
        options = _options_of(place, source["options"])
        given = options.pop("path", None)
        if given is None:
            raise InvalidArgumentError(f"{place}: the view has no path; add OPTIONS (path '...')")
        job.source(
            source["name"].strip("`"),
            given,
            format=source["format"],
            schema=source["schema"],
            options=options,
        )
    else:
        shown = " ".join(statement.split())[:60]
        raise InvalidArgumentError(
            f"{place}: {shown!r} makes no stage; write CREATE TEMPORARY VIEW name AS SELECT ..., "
            "or CREATE TEMPORARY VIEW name USING format OPTIONS (path '...')"
        )


def _options_of(place: str, text: str) -> dict[str, str]:
    options = {}
    at = 0
    while at < len(text):
        option = _OPTION.match(text, at)
        if option is None:
            raise InvalidArgumentError(
                f"{place}: cannot read the options {text.strip()!r}; write name 'value', ..."
            )
        options[option["quoted"] or option["plain"]] = option["value"]
        at = option.end()
    return options


def _names_in(query: str) -> Iterator[str]:
    for token in _TOKEN.finditer(query):
        if token.lastgroup == "name":
            yield token.group().strip("`").lower()


def _query(query: str, inputs: tuple[str, ...]) -> Make:
    def make(*frames: DataFrame) -> DataFrame:
        from pyspark.sql import SparkSession

        spark = frames[0].sparkSession if frames else SparkSession.active()
        for name, frame in zip(inputs, frames, strict=True):
            frame.createOrReplaceTempView(f"`{name}`")
        return spark.sql(query)

    return make
