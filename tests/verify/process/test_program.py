"""Programs with boundaries: what they go on with is what was agreed upon."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from harness.waiting import wait_for
from holdfast.errors import InvalidArgumentError, RefusedWriteError
from holdfast.verify import Program, load_job, verified
from holdfast.verify.machine import JobState, Kind, Mode, Model, Report, Standing
from holdfast.verify.process.boundaries import Target
from holdfast.verify.process.computing import Check, Maker
from holdfast.verify.process.pinned_files import CODE, pin_files
from holdfast.verify.process.program import run_program
from holdfast.verify.process.submission import pin_sources
from tests.verify.process.fleet import Fleet
from tests.verify.process.test_orders import ORDERS

HEAD = """
from pyspark.sql import SparkSession
from holdfast.verify import verified
spark = SparkSession.builder.getOrCreate()
"""
PROGRAM = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from holdfast.verify import verified

spark = SparkSession.builder.getOrCreate()
odd = verified(spark.range(100).where("id % 2 = 1"), "odd")
many = odd.count()
sums = verified(odd.selectExpr("sum(id) AS total", f"{many} AS many"), "sums")
row = verified(sums.selectExpr("total / many AS mean"), "mean").first()
Path(sys.argv[0]).with_suffix(".out").write_text(str(row["mean"]))
spark.stop()
"""


def load(folder: Path, text: str) -> Program:
    path = folder / "means.py"
    path.write_text(text)
    program = load_job(path)
    assert isinstance(program, Program)
    return program


def test_a_program_runs_from_boundary_to_boundary(spark: SparkSession, tmp_path: Path) -> None:
    program = load(tmp_path, PROGRAM)
    fleet = Fleet(spark, tmp_path, program.plan, mode=Mode.BLOCKING, model=Model.CRASH)
    standing = run_program(program, fleet.replicas[1], fleet.computers[1])
    assert standing.state is JobState.DONE
    assert (tmp_path / "means.out").read_text() == "50.0"
    assert fleet.agreed("mean").to_pylist() == [{"mean": 50.0}]
    assert [each["stage"] for each in fleet.events(1, "made")] == ["odd", "sums", "mean"]
    assert spark.range(3).count() == 3


@pytest.mark.parametrize("end", ["sys.exit(0)", "sys.exit()", "raise SystemExit"])
def test_a_program_may_end_itself(spark: SparkSession, tmp_path: Path, end: str) -> None:
    program = load(tmp_path, HEAD + f'import sys\nverified(spark.range(1), "a")\n{end}\n')
    fleet = Fleet(spark, tmp_path, program.plan, model=Model.CRASH)
    standing = run_program(program, fleet.replicas[1], fleet.computers[1])
    assert standing.state is JobState.DONE


@pytest.mark.parametrize("code", ["3", "'no data'"])
def test_a_program_that_ends_itself_with_an_error_has_failed(
    spark: SparkSession, tmp_path: Path, code: str
) -> None:
    program = load(tmp_path, HEAD + f'import sys\nverified(spark.range(1), "a")\nsys.exit({code})')
    fleet = Fleet(spark, tmp_path, program.plan, model=Model.CRASH)
    with pytest.raises(InvalidArgumentError, match=f"means.py: has ended itself with {code}"):
        run_program(program, fleet.replicas[1], fleet.computers[1])


def test_a_program_that_went_on_from_something_wrong_begins_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    program = load(tmp_path, PROGRAM)
    fleet = Fleet(spark, tmp_path, program.plan, mode=Mode.HYBRID)
    liar = fleet.computers[1]
    define = liar.define
    verifier = fleet.verifiers.verifier
    report = verifier.report

    def lie(stage: str, make: Maker, check: Check | None = None) -> None:
        define(stage, (lambda frames: make(frames).limit(49)) if stage == "odd" else make, check)

    def echo(each: Report, now: float) -> None:
        """Replicas 3 and 4 say what replica 2 says."""
        report(each, now)
        for other in (3, 4) if each.replica == 2 else ():
            path = each.path.replace("/2/", f"/{other}/", 1)
            report(replace(each, replica=other, path=path), now)

    def let_another_run(known: Standing) -> None:
        run_program(program, fleet.replicas[2], fleet.computers[2])

    liar.define = lie  # type: ignore[method-assign]
    verifier.report = echo  # type: ignore[method-assign]
    fleet.verifiers.wait = let_another_run  # type: ignore[method-assign]
    run_program(program, fleet.replicas[1], liar)
    assert (tmp_path / "means.out").read_text() == "50.0"
    assert fleet.agreed("mean").to_pylist() == [{"mean": 50.0}]
    assert [each["stage"] for each in fleet.events(1, "made")] == ["odd", "sums"]
    outvoted = [each for each in fleet.verifiers.verifier.findings if each.kind is Kind.OUTVOTED]
    assert {(each.replica, each.stage) for each in outvoted} == {(1, "odd")}


def test_a_plain_write_is_refused_whatever_the_program_makes_of_that(
    spark: SparkSession, tmp_path: Path
) -> None:
    text = (
        'most = verified(spark.range(3), "most")\n'
        "try:\n"
        f'    most.write.mode("overwrite").parquet({str(tmp_path / "most")!r})\n'
        "except Exception:\n"
        "    pass\n"
    )
    program = load(tmp_path, HEAD + text)
    fleet = Fleet(spark, tmp_path, program.plan, model=Model.CRASH)
    with pytest.raises(RefusedWriteError, match=r"DataFrameWriter\.parquet writes what no"):
        run_program(program, fleet.replicas[1], fleet.computers[1])
    assert not (tmp_path / "most").exists()


def test_what_is_to_be_written_is_agreed_upon_with_its_target(
    spark: SparkSession, tmp_path: Path
) -> None:
    text = (
        "from holdfast.verify import verified_write\n"
        'most = verified(spark.range(3), "most")\n'
        f'verified_write(most, "w", path={str(tmp_path / "most")!r}, mode="append")\n'
    )
    program = load(tmp_path, HEAD + text)
    fleet = Fleet(spark, tmp_path, program.plan, mode=Mode.BLOCKING, model=Model.CRASH)
    run_program(program, fleet.replicas[1], fleet.computers[1])
    assert sorted(row["id"] for row in fleet.agreed("w").to_pylist()) == [0, 1, 2]
    (row,) = fleet.agreed("w.target").to_pylist()
    target = Target.decode(row["target"])
    assert (target.path, target.mode) == (str(tmp_path / "most"), "append")
    assert not (tmp_path / "most").exists(), "the coordinator writes it"


READER = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from holdfast.verify import verified

spark = SparkSession.builder.getOrCreate()
data = Path(__file__).parent
verified(spark.read.csv(str(data / "a.csv")), "before")
(data / sys.argv[1]).write_text("5")
verified(spark.read.csv([str(data / "a.csv"), str(data / sys.argv[2])]), "after")
"""


@pytest.mark.parametrize(
    ("head", "arguments", "message"),
    [
        ('SOURCES = ["a.csv", "b*.csv"]', ("c.csv", "b.csv"), None),
        ('SOURCES = ["a.csv", "b*.csv"]', ("b.csv", "b.csv"), r"b\.csv has the digest"),
        ('SOURCES = ["a.csv", "b*.csv"]', ("b.csv", "c.csv"), r"c\.csv, which SOURCES does not"),
        (
            'SOURCES = ["a.csv"]',
            ("code.csv", "a.csv"),
            r"imported code: .*code\.csv has the digest",
        ),
        ("", ("c.csv", "b.csv"), r"a\.csv, which SOURCES does not list"),
    ],
)
def test_files_that_a_program_reads_stay_as_they_were(
    spark: SparkSession,
    tmp_path: Path,
    head: str,
    arguments: tuple[str, str],
    message: str | None,
) -> None:
    for name in ("a", "b", "c", "code"):
        (tmp_path / f"{name}.csv").write_text("4")
    program = load(tmp_path, head + READER)
    code = pin_files([str(tmp_path / "code.csv")])
    orders = replace(ORDERS, sources=pin_sources(program) | {CODE: code}, arguments=arguments)
    fleet = Fleet(spark, tmp_path, program.plan, mode=Mode.BLOCKING, model=Model.CRASH)
    if message is None:
        run_program(program, fleet.replicas[1], fleet.computers[1], orders)
        assert [row["_c0"] for row in fleet.agreed("after").to_pylist()] == ["4", "4"]
        return
    with pytest.raises(InvalidArgumentError, match=message):
        run_program(program, fleet.replicas[1], fleet.computers[1], orders)
    if head:
        assert [each["stage"] for each in fleet.events(1, "made")] == ["before"]
    else:
        assert not (tmp_path / "1.trace").exists(), "nothing was computed"


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ('SOURCES = ["a.csv", "b.csv"]', r"b\.csv has the digest"),
        ("", "which SOURCES does not list"),
    ],
)
def test_a_file_that_is_exchanged_for_one_of_yesterday_is_not_read(
    spark: SparkSession, tmp_path: Path, head: str, message: str
) -> None:
    for name, text in (("a", "4"), ("b", "4"), ("yesterday", "3")):
        (tmp_path / f"{name}.csv").write_text(text)
    written = (tmp_path / "yesterday.csv").stat().st_ctime_ns
    wait_for("a later time", lambda: touched(tmp_path) > written + 1000, 10)
    exchange = '(data / "b.csv").unlink(), (data / "b.csv").symlink_to("yesterday.csv")'
    text = READER.replace('(data / sys.argv[1]).write_text("5")', exchange)
    program = load(tmp_path, head + text)
    orders = replace(
        ORDERS,
        submitted=touched(tmp_path) // 1000,
        sources=pin_sources(program),
        arguments=("", "b.csv"),
    )
    fleet = Fleet(spark, tmp_path, program.plan, mode=Mode.BLOCKING, model=Model.CRASH)
    with pytest.raises(InvalidArgumentError, match=message):
        run_program(program, fleet.replicas[1], fleet.computers[1], orders)


ROUNDABOUT = """
from pathlib import Path
from pyspark.sql import SparkSession
from holdfast.verify import verified

spark = SparkSession.builder.getOrCreate()
data = Path(__file__).parent
try:
    rows = READ
except Exception:
    rows = spark.range(1)
verified(rows, "rows")
"""


@pytest.mark.parametrize(
    "read",
    [
        'spark.read.csv(str(data / "b.csv")).cache()',
        'spark.createDataFrame(spark.read.csv(str(data / "b.csv")).collect())',
        'spark.read.csv(str(data / "b.csv")).rdd.toDF()',
        'spark.sql(f"SELECT 1 AS a WHERE (SELECT count(*) FROM csv.`{data}/b.csv`) > 0")',
        'spark.sparkContext.textFile(str(data / "b.csv")).map(lambda row: (row,)).toDF()',
    ],
)
def test_a_file_that_is_not_listed_is_not_read_by_roundabout_ways(
    spark: SparkSession, tmp_path: Path, read: str
) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("4")
    program = load(tmp_path, 'SOURCES = ["a.csv"]\n' + ROUNDABOUT.replace("READ", read))
    orders = replace(ORDERS, sources=pin_sources(program))
    fleet = Fleet(spark, tmp_path, program.plan, mode=Mode.BLOCKING, model=Model.CRASH)
    with pytest.raises(InvalidArgumentError, match=r"which SOURCES does not|take spark\.read"):
        run_program(program, fleet.replicas[1], fleet.computers[1], orders)
    assert not (tmp_path / "1.trace").exists(), "nothing was computed"


def touched(folder: Path) -> int:
    """The time of the file system now."""
    probe = folder / "probe"
    probe.write_text("")
    return probe.stat().st_ctime_ns


def test_where_no_replica_runs_it_nothing_changes(spark: SparkSession) -> None:
    df = spark.range(3)
    assert verified(df, "numbers") is df


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'if 1 > 2:\n    verified(spark.range(1), "a")\nverified(spark.range(1), "b")',
            "boundary 'a' was passed by",
        ),
        ('verified(spark.range(1), "a")\nif 1 > 2:\n    verified(spark.range(1), "b")', "'b' was"),
        ('for n in (1, 2):\n    verified(spark.range(n), "a")', "boundary 'a' is marked twice"),
    ],
)
def test_boundaries_are_marked_once_and_all(
    spark: SparkSession, tmp_path: Path, text: str, message: str
) -> None:
    program = load(tmp_path, HEAD + text)
    fleet = Fleet(spark, tmp_path, program.plan, model=Model.CRASH)
    with pytest.raises(InvalidArgumentError, match=message):
        run_program(program, fleet.replicas[1], fleet.computers[1])
