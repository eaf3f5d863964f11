"""Checks of the files that code of a replica reads through Spark, at each read.

The plan of a DataFrame that is reported does not name all that its rows come from: Spark leaves out
what is cached, in a subquery or behind an RDD, and what the code has collected is in no plan.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pyspark import SparkContext
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from holdfast.errors import InvalidArgumentError
from holdfast.verify.process.patching import Patches
from holdfast.verify.process.pinned_files import CODE, PinnedFiles, SourceFile

_READERS: Final[dict[type, tuple[str, ...]]] = {
    DataFrameReader: ("load", "parquet", "csv", "json", "orc", "text", "xml", "table"),
    SparkSession: ("sql", "table"),
}
_OF_FILES: Final = (
    *("textFile", "wholeTextFiles", "binaryFiles", "binaryRecords", "pickleFile", "sequenceFile"),
    *("hadoopFile", "hadoopRDD", "newAPIHadoopFile", "newAPIHadoopRDD"),
)
"""Methods of the context that read files into an RDD, which does not tell which."""
_FILE_TABLES: Final = tuple(
    f"org.apache.spark.sql.execution.datasources.v2.{name}."
    for name in ("csv", "json", "orc", "parquet", "text")
)
"""Tables of files, if `spark.sql.sources.useV1SourceList` leaves them out."""
_TABLES: Final = ("delta", "hudi", "iceberg")
_HIDDEN: Final = "files of a "


class Reads:
    """The files that the code may read, and those that it has read."""

    def __init__(
        self,
        place: str,
        source: str,
        listed: Iterable[SourceFile],
        pinned: PinnedFiles,
        remedy: str,
    ) -> None:
        """`place`: the file with the code. `source`: what errors call the files that it lists.
        `remedy`: how it lists one more."""
        self._place = place
        self._source = source
        # Spark tells paths without a `..` in them.
        self._listed = {os.path.abspath(file.path): file for file in listed}
        self._pinned = pinned
        self._remedy = remedy
        self._seen: dict[str, SourceFile] = {}
        self._failure: InvalidArgumentError | None = None

    def note(self, df: DataFrame) -> None:
        """Raise ChangedFileError if a file was changed since the job was submitted, and
        InvalidArgumentError for one that is not listed: its digest is not known."""
        try:
            found = self._files_of(df)
            new = [file for file in found if not self._pinned.knows(file)]
            self._pinned.check(self._source, new)
        except InvalidArgumentError as error:
            self._failure = self._failure or error
            raise
        self._seen |= {file.path: file for file in found}

    def refuse(self, what: str) -> None:
        """Raise InvalidArgumentError for what does not tell which files it reads."""
        self._failure = self._failure or InvalidArgumentError(
            f"{self._place}: {what} reads files that cannot be seen to stay as they were; take "
            "spark.read"
        )
        raise self._failure

    def raise_failure(self) -> None:
        """Raise what was raised at a read, whatever the code has made of that."""
        if self._failure is not None:
            raise self._failure

    def check(self, df: DataFrame | None = None) -> None:
        """Raise ChangedFileError unless all files are as they were when they were read first.

        Those that the plan names are hashed again: they may have been read only now."""
        self.raise_failure()
        again = {} if df is None else {file.path: file for file in self._files_of(df)}
        self._pinned.check(self._source, list(again.values()))
        rest = [file for path, file in self._seen.items() if path not in again]
        self._pinned.check_times(self._source, rest)

    def _files_of(self, df: DataFrame) -> list[SourceFile]:
        found = []
        for uri in files_of(df):
            path = _local_path(uri)
            if path not in self._listed:
                raise InvalidArgumentError(
                    f"{self._place}: reads {path or uri}, which {self._remedy}: files are hashed "
                    "when the job is submitted"
                )
            found.append(self._listed[path])
        return found


def reads_of_job(
    place: str, files: Mapping[str, Sequence[SourceFile]], pinned: PinnedFiles
) -> Reads:
    """Those of the stages of a Job or of SQL, which may read the files of all its sources."""
    listed = [file for name, of_source in files.items() if name != CODE for file in of_source]
    remedy = "no source of the job names; make it one"
    return Reads(place, "of the job", listed, pinned, remedy)


@contextmanager
def reads_checked(reads: Reads) -> Iterator[None]:
    """Let each DataFrame that Spark reads be noted, and no RDD be read from files."""

    def noting(read: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
        def note(*args: Any, **more: Any) -> DataFrame:
            df = read(*args, **more)
            reads.note(df)
            return df

        return note

    with Patches() as patches:
        for kind, names in _READERS.items():
            for name in names:
                patches.replace(kind, name, noting(getattr(kind, name)))
        for name in _OF_FILES:
            what = f"SparkContext.{name}"
            patches.replace(SparkContext, name, lambda *_, what=what, **__: reads.refuse(what))
        yield


def files_of(df: DataFrame) -> Sequence[str]:
    """The files that a plan names, as URIs: also those of which rows are cached, and those in
    subqueries, which `DataFrame.inputFiles` leaves out."""
    found = dict.fromkeys(df.inputFiles())
    open_ = [df._jdf.queryExecution().analyzed()]
    while open_:
        node = open_.pop()
        for inner in (node.children(), node.innerChildren()):
            open_ += [inner.apply(number) for number in range(inner.size())]
        found |= dict.fromkeys(_files_in(node))
    return list(found)


def _files_in(node: Any) -> Iterator[str]:
    """What one node of a plan reads by itself."""
    kind = _name(node).rpartition(".")[2]
    if kind == "HiveTableRelation":
        yield str(node.tableMeta().location().toString())
    elif kind in ("LogicalRelation", "DataSourceV2Relation"):
        read = node.relation() if kind == "LogicalRelation" else node.table()
        name = _name(read)
        if name.endswith(".HadoopFsRelation"):
            yield from read.inputFiles()
        elif name.startswith(_FILE_TABLES):
            yield from read.fileIndex().inputFiles()
        elif any(word in name.lower() for word in _TABLES):
            # A log says which files count, and the plan does not.
            yield f"{_HIDDEN}{name}"


def _name(thing: Any) -> str:
    return str(thing.getClass().getName())


def _local_path(uri: str) -> str | None:
    """None if it is one of an object store or of HDFS."""
    found = urlsplit(uri)
    return unquote(found.path) if found.scheme in ("", "file") else None
