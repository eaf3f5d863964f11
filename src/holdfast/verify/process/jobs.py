"""Jobs: sources, and stages that each make one DataFrame of others.

    job = Job("billing")
    job.source("readings", "readings/*.parquet")

    @job.stage
    def hourly(readings: DataFrame) -> DataFrame: ...

A stage reads the sources and stages that its parameters are named after. Nothing here starts Spark.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, overload

from holdfast.errors import InvalidArgumentError
from holdfast.verify.machine import Plan
from holdfast.verify.process.sources import Source, make_source
from holdfast.verify.process.task_api import Calls, Unverified

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Make = Callable[..., "DataFrame"]
"""Makes a DataFrame of those that it reads, in the order of the stage's inputs. A keyword-only
parameter `calls` is given `Calls`."""

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True)
class Stage:
    name: str
    inputs: tuple[str, ...]
    """Sources, and stages that were defined before."""
    make: Make
    wants_calls: bool = False
    """Whether its function is to be given `Calls`."""

    def frame(self, inputs: Sequence[DataFrame], calls: Calls) -> DataFrame:
        """What it makes of its inputs."""
        return self.make(*inputs, calls=calls) if self.wants_calls else self.make(*inputs)


class Job:
    """What is to be computed; every replica computes all of it."""

    def __init__(self, name: str, *, slices: int = 8, folder: str | Path | None = None) -> None:
        """`slices`: how many parts each stage's output is cut into, which are computed and verified
        side by side. `folder`: what paths of sources are relative to; by default where the file
        lies that makes the job."""
        check_name("job", name)
        self.name = name
        self.slices = slices
        self.folder = Path(folder).absolute() if folder is not None else _folder_of_caller()
        self.sources: dict[str, Source] = {}
        self.stages: dict[str, Stage] = {}

    def source(
        self,
        name: str,
        path: str,
        *,
        format: str | None = None,
        schema: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Files that stages read: one, a pattern with `*`, or all of a folder.

        `format` is one that Spark reads, by default what the files' names end in; `schema` their
        columns in Spark's DDL; `options` go to Spark's reader.
        """
        self._check_new("source", name)
        self.sources[name] = make_source(name, path, format, schema, options or {})

    @overload
    def stage(self, make: Make, /) -> Make: ...

    @overload
    def stage(
        self, /, *, name: str | None = None, inputs: Sequence[str] | None = None
    ) -> Callable[[Make], Make]: ...

    def stage(
        self,
        make: Make | None = None,
        /,
        *,
        name: str | None = None,
        inputs: Sequence[str] | None = None,
    ) -> Make | Callable[[Make], Make]:
        """Decorates the function that makes the stage. Without `name` it is the function's, without
        `inputs` they are the names of its parameters."""

        def add(function: Make) -> Make:
            parameters = inspect.signature(function).parameters.values()
            named = [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY]
            read = tuple(named if inputs is None else inputs)
            wants_calls = any(each.kind is each.KEYWORD_ONLY for each in parameters)
            self._add_stage(Stage(name or function.__name__, read, function, wants_calls))
            return function

        return add if make is None else add(make)

    @property
    def plan(self) -> Plan:
        parents = {
            stage.name: [each for each in stage.inputs if each in self.stages]
            for stage in self.stages.values()
        }
        return Plan(parents, self.slices)

    def run(self, spark: SparkSession) -> dict[str, DataFrame]:
        """The job as plain Spark runs it, once and unverified: what each stage gives."""
        made: dict[str, DataFrame] = {
            name: source.open(spark, source.find(self.folder))
            for name, source in self.sources.items()
        }
        for stage in self.stages.values():
            made[stage.name] = stage.frame([made[each] for each in stage.inputs], Unverified())
        return {name: made[name] for name in self.stages}

    def _add_stage(self, stage: Stage) -> None:
        name, inputs = stage.name, stage.inputs
        self._check_new("stage", name)
        for each in inputs:
            if each not in self.sources and each not in self.stages:
                known = ", ".join([*self.sources, *self.stages]) or "none yet"
                raise InvalidArgumentError(
                    f"job {self.name}: stage {name} reads {each!r}, which is no source and no "
                    f"stage before it; there are: {known}"
                )
            if inputs.count(each) > 1:
                raise InvalidArgumentError(
                    f"job {self.name}: stage {name} names {each!r} twice; name each input once"
                )
        self.stages[name] = stage

    def _check_new(self, what: str, name: str) -> None:
        check_name(f"job {self.name}: {what}", name)
        if name in self.sources or name in self.stages:
            raise InvalidArgumentError(
                f"job {self.name}: there is a source or stage {name!r} already; take another name"
            )


def check_name(place: str, name: str) -> None:
    """Names become those of folders."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in (".", ".."):
        raise InvalidArgumentError(
            f"{place}: {name!r} is no name; use letters, digits, '_', '-' and '.', 100 at most"
        )


def _folder_of_caller() -> Path:
    """Where the file lies that called the one that calls this."""
    file = sys._getframe(2).f_globals.get("__file__")
    return Path(file).resolve().parent if file else Path.cwd()
