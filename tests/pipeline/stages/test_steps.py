"""Steps that look at each row alone: what they make of rows, and that orders pass."""

import re
from datetime import date, datetime
from decimal import Decimal
from math import copysign, isnan

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.machine.tuples import STIME
from holdfast.pipeline.stages import steps as functions
from holdfast.pipeline.stages.compile import TIME
from holdfast.pipeline.stages.rows import ENTRY, PLACE, gate_schema
from holdfast.pipeline.stages.steps import apply_step, schema_of
from holdfast.pipeline.topology import Function, Select, Sql, Where
from tests.pipeline.stages.gates import gate_frame, gate_table, rows_of

PLAIN = "k string, v double, n bigint, a array<int>"
ROWS_IN = [
    {"k": "x", "v": 1.5, "n": 1, "a": [1, None]},
    {"k": None, "v": float("nan"), "n": None, "a": None},
    {"k": "y", "v": -0.0, "n": 2**62 + 1, "a": []},
    {"k": "x", "v": None, "n": -5, "a": [7]},
]


@pytest.fixture(scope="module")
def plain(spark):
    return gate_frame(spark, PLAIN, ROWS_IN)


def apply(df, step, folder="."):
    return apply_step(df, step, "stages.s.steps[2]", str(folder))


def refused(df, step, folder="."):
    with pytest.raises(InvalidArgumentError) as caught:
        apply(df, step, folder)
    assert str(caught.value).startswith("stages.s.steps[2].")
    return str(caught.value)


# where


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("v > 0", [0, 1]),  # to Spark NaN is the largest number
        ("n IS NULL", [1]),
        ("k = 'x' -- a comment", [0, 3]),
        ("k = 'x' OR n > 2", [0, 2, 3]),
        ("CAST(NULL AS BOOLEAN)", []),
        ("if(k IS NULL AND n IS NULL AND v IS NULL, raise_error('order'), true)", [0, 1, 2, 3]),
        ("a IS NULL OR size(a) > 0", [0, 1, 3]),
    ],
)
def test_where_keeps_rows_and_orders(plain, condition, kept):
    found = rows_of(apply(plain, Where(condition)))
    assert [row["n"] for row in found] == [ROWS_IN[at]["n"] for at in kept]


def test_expressions_that_fail_on_null_are_not_evaluated_for_orders(spark):
    df = gate_frame(spark, "n bigint", [{"n": 2}, {"n": 4}])
    fails = "coalesce(n, raise_error('null'))"
    assert rows_of(apply(df, Where(f"{fails} > 3"))) == [{"n": 4}]
    both = apply(apply(df, Select([f"{fails} AS n", f"{fails} + 1 AS m"])), Where(f"m > {fails}"))
    assert rows_of(both) == [{"n": 2, "m": 3}, {"n": 4, "m": 5}]
    assert rows_of(apply(df, Sql(f"SELECT {fails} AS n FROM input WHERE {fails} < 3"))) == [
        {"n": 2}
    ]


# select and sql


def test_select_calculates_columns(plain):
    found = rows_of(
        apply(plain, Select(["k", "try_multiply(n, 2) AS m", "upper(k)", "stime AS moment"]))
    )
    assert list(found[0]) == ["k", "m", "upper(k)", "moment"]
    assert [row["m"] for row in found][:2] == [2, None]
    assert [row["upper(k)"] for row in found] == ["X", None, "Y", "X"]


def test_a_star_is_all_columns_of_the_stream(plain):
    assert list(rows_of(apply(plain, Select(["*", "1 AS one"])))[0]) == ["k", "v", "n", "a", "one"]


def test_sql_selects_where(plain):
    found = rows_of(apply(plain, Sql("SELECT k, n AS m FROM input WHERE n < 3 -- some")))
    assert found == [{"k": "x", "m": 1}, {"k": "x", "m": -5}]


def test_bits_of_numbers_stay(plain):
    found = rows_of(apply(plain, Sql("SELECT * FROM input WHERE true")))
    assert isnan(found[1]["v"])
    assert copysign(1, found[2]["v"]) == -1
    assert found[2]["n"] == 2**62 + 1


def test_names_with_dots_backticks_and_those_used_inside(spark):
    names = ["a.b", "c`d", "s", "t", "k0", "v0", "entry", "_left", "input", "order"]
    ddl = ", ".join("`" + name.replace("`", "``") + "` int" for name in names)
    df = gate_frame(spark, ddl, [dict.fromkeys(names, 3)])
    found = rows_of(apply(df, Select(["*", "`a.b` + `c``d` + s + t + k0 + v0 + entry AS sum"])))
    assert found == [dict.fromkeys(names, 3) | {"sum": 21}]


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("rand(42)", "rand differs between replicas"),
        ("k || uuid()", "uuid differs between replicas"),
        ("upper(call_uuid)", "cannot be resolved"),
        ("reflect('java.util.UUID', 'randomUUID')", "reflect differs between replicas"),
        ("java_method('java.lang.System', 'nanoTime')", "differs between replicas"),
        ("current_user()", "current_user differs between replicas"),
        ("`current_timestamp`()", "current_timestamp differs between replicas"),
        ("unix_timestamp(`now`())", "now differs between replicas"),
        ("randstr(5)", "randstr differs between replicas"),
        ("uniform(0, 10)", "uniform differs between replicas"),
        ("aes_encrypt(k, '0000111122223333')", "aes_encrypt differs between replicas"),
        ("transform(a, x -> x + rand())", "rand differs between replicas"),
        ("explode(a)", "several rows of one.*use a function step"),
        ("stack(2, 1, 2)", "several rows of one"),
        ("bool_and(n > 1)", "looks at more than one row.*use a window step"),
        ("percentile(n, 0.5)", "looks at more than one row"),
        ("window(stime, '1 hour')", "looks at more than one row"),
        ("(SELECT 1)", "asks for other data.*join with a stream"),
        ("exists(SELECT 1)", "asks for other data"),
        ("n IN (SELECT 1)", "asks for other data"),
        ("_entry", r"_entry.*over the columns stime, k, v, n, a$"),
        ("struct(*)", r"a \* within an expression; name the columns"),
        ("no_column + 1", "no_column.*over the columns stime, k, v, n, a$"),
        ("no_function(1)", "no_function"),
        ("n +* 2", "syntax"),
        ("map(k, v)", r"is map<string,double>, which no stream can carry; cast it"),
        ("NULL", "is void, which no stream can carry"),
        ("INTERVAL '1' YEAR", "is interval year, which no stream can carry"),
        ("n AS _PLACE", "_PLACE is a name that Holdfast needs itself"),
        ("stime", "stime is a name that Holdfast needs itself"),
    ],
)
def test_selects_that_are_refused(plain, expression, why):
    step = object.__new__(Select)
    object.__setattr__(step, "select", (expression,))
    message = refused(plain, step)
    assert re.search(why, message, re.IGNORECASE), message


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("rand() < 0.5", "rand differs"),
        ("k", "not a boolean"),
        ("n > (SELECT 1)", "asks for other data"),
        ("_body IS NULL", "more than one row"),
        ("explode(a) > 1", "generator|several rows"),
        ("bool_and(n > 1)", "invalid_where_condition"),
    ],
)
def test_conditions_that_are_refused(plain, condition, why):
    step = object.__new__(Where)
    object.__setattr__(step, "where", condition)
    message = refused(plain, step)
    assert re.search(why, message, re.IGNORECASE), message


def test_two_columns_of_one_name_are_refused(plain):
    message = refused(plain, Select(["upper(k)", "UPPER(k)"]))
    assert "two columns" in message
    assert "AS" in message
    assert "several columns" not in refused(plain, Sql("SELECT k, K FROM input"))


def test_a_struct_star_is_refused(spark):
    df = gate_frame(spark, "s struct<a:int,b:int>", [{"s": {"a": 1, "b": 2}}])
    assert "name the columns" in refused(df, Select(["s.*"]))


# functions

MODULE = """
import pandas as pd

def same(frame):
    return frame

def twice(frame):
    return pd.concat([frame, frame.assign(n=-frame.n)])

def only_large(frame):
    return frame[frame.n > 100]

def share(frame):
    return frame.assign(v=frame.v / frame.v.sum())

def nothing(frame):
    return None

def empty(frame):
    return pd.DataFrame(columns=["k", "v", "n", "a"])

def lost(frame):
    return frame.set_index("k")

def beyond(frame):
    return frame.set_index(frame.index + 1)

def poor(frame):
    return frame[["k"]]

def doubled(frame):
    return pd.concat([frame, frame], axis=1)

def wrong(frame):
    return frame.assign(n="many")

def fractions(frame):
    return frame.assign(n=0.5)

def huge(frame):
    return frame.assign(n=[2**80] * len(frame))

number = 5

class Kept:
    @staticmethod
    def same(frame):
        return frame
"""
SCHEMA = {"k": "string", "v": "double", "n": "bigint", "a": "array<int>"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("functions")
    (folder / "cleaning_functions.py").write_text(MODULE)
    (folder / "broken_functions.py").write_text("1 / 0")
    return folder


def run(folder, name, chunks, batch=None, schema=SCHEMA):
    """Call a function as Spark's workers do, in batches of any size."""
    table = gate_table(StructType.fromDDL(PLAIN), chunks).combine_chunks()
    size = batch or len(table)
    batches = [b for at in range(0, len(table), size) for b in table.slice(at, size).to_batches()]
    columns = schema_of(Function(name, schema).schema)
    arrow = gate_schema(StructType([TIME, *columns.fields]))
    made = functions._run(name, str(folder), "stages.s.steps[2]", arrow, iter(batches))
    rows = pa.Table.from_batches(made).to_pylist()
    assert sum(row[ENTRY] < 0 for row in rows) == 2
    return [row for row in rows if row[ENTRY] > 0]


def test_a_function_in_spark(plain, folder):
    found = rows_of(apply(plain, Function("cleaning_functions:twice", SCHEMA), folder))
    numbers = [1, -1, None, None, 2**62 + 1, -(2**62) - 1, -5, 5]
    assert [row["n"] for row in found] == numbers


def test_types_survive_a_function(folder):
    (found,) = [run(folder, "cleaning_functions:Kept.same", [ROWS_IN])]
    own = [{name: row[name] for name in ("k", "n", "a")} for row in found]
    assert own == [{name: row[name] for name in ("k", "n", "a")} for row in ROWS_IN]
    # pandas has one word for both.
    assert [row["v"] for row in found] == [1.5, None, -0.0, None]


def test_hostile_types_survive_a_function(folder, spark):
    ddl = "d decimal(38,10), b binary, t timestamp, z timestamp_ntz, y date, o boolean"
    ddl += ", s struct<x:array<string>>"
    row = {
        "d": Decimal("1234567890123456789012345678.0123456789"),
        "b": b"\xff\x00",
        "t": datetime(1969, 12, 31, 23, 59, 59, 999999),
        "z": datetime(9999, 12, 31),
        "y": date(1, 1, 1),
        "o": True,
        "s": {"x": ["a", None]},
    }
    nothing = dict.fromkeys(row)
    df = gate_frame(spark, ddl, [row, nothing])
    schema = dict(each.split(" ", 1) for each in ddl.split(", "))
    found = rows_of(apply(df, Function("cleaning_functions:same", schema), folder))
    assert found[1] == nothing
    assert found[0] | {"t": None} == row | {"t": None}


def test_a_function_sees_whole_chunks_however_spark_cuts_them(folder):
    chunks = [[{"k": "x", "v": float(v), "n": v} for v in range(b, b + 5)] for b in (1, 7, 20)]
    whole = run(folder, "cleaning_functions:share", chunks)
    for size in (1, 2, 3, 7):
        assert run(folder, "cleaning_functions:share", chunks, size) == whole
    apart = [run(folder, "cleaning_functions:share", [chunk]) for chunk in chunks]
    assert [row["v"] for row in whole] == [row["v"] for part in apart for row in part]
    assert sum(row["v"] for row in whole[:5]) == pytest.approx(1)


def test_rows_made_of_one_follow_it_and_have_its_time(folder):
    found = run(folder, "cleaning_functions:twice", [ROWS_IN])
    assert [row[PLACE] for row in found] == list(range(8))
    assert found[0][STIME] == found[1][STIME] < found[2][STIME]


def test_a_function_may_answer_nothing(folder):
    assert run(folder, "cleaning_functions:empty", [ROWS_IN]) == []
    assert [row["n"] for row in run(folder, "cleaning_functions:only_large", [ROWS_IN])] == [
        2**62 + 1
    ]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nothing", "the function answered NoneType; answer a pandas DataFrame"),
        ("lost", "the index of the answer .* keep the index"),
        ("beyond", "the index of the answer .* keep the index"),
        ("poor", "answer has no column v; its schema"),
        ("doubled", "answer has 2 columns k; its schema"),
        ("wrong", "column n is not int64"),
        ("fractions", "column n is not int64"),
        ("huge", "column n is not int64"),
    ],
)
def test_answers_that_are_refused(folder, name, why):
    with pytest.raises(InvalidArgumentError, match=rf"^stages.s.steps\[2\]: .*{why}"):
        run(folder, f"cleaning_functions:{name}", [ROWS_IN])


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing_functions:f", "cannot be loaded.*put missing_functions.py beside the topology"),
        ("cleaning_functions:f", "cannot be loaded"),
        ("broken_functions:f", "cannot be loaded.*ZeroDivisionError"),
        ("cleaning_functions:number", "is no function"),
    ],
)
def test_functions_that_cannot_be_called_are_refused(plain, folder, name, why):
    message = refused(plain, Function(name, SCHEMA), folder)
    assert re.search(f"^stages.s.steps\\[2\\].function: {name} .*{why}", message, re.DOTALL)


def test_columns_that_no_function_may_answer(plain, folder):
    step = Function("cleaning_functions:same", {"_body": "string"})
    assert "needs itself" in refused(plain, step, folder)


def test_pandas_frames_have_the_same_types_with_and_without_nulls(folder):
    seen = []

    def look(frame: pd.DataFrame) -> pd.DataFrame:
        seen.append(dict(frame.dtypes.astype(str)))
        return frame

    table = gate_table(StructType.fromDDL(PLAIN), [ROWS_IN[:1], ROWS_IN[1:2]])
    rows = table.slice(0, 2).combine_chunks().to_batches()[0]
    for at in (0, 1):
        functions._made(look, "here", rows.slice(at, 1), rows.schema)
    assert seen[0] == seen[1]
    assert seen[0]["n"] == "Int64"
