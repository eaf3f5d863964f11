"""Keys: Spark's own grouping is the oracle for every type, a dict for the numbering."""

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from holdfast.errors import InvalidArgumentError
from holdfast.spark.keys import Keys
from holdfast.windows.stores.codec import StateCodec

ROWS = 40
EVERY_TYPE = {
    "boolean": "id % 2 = 0",
    "byte": "cast(id - 3 as tinyint)",
    "short": "cast(id - 3 as smallint)",
    "int": "cast(id - 3 as int)",
    "long": "(id - 3) * 3074457345618258602",
    "string": "concat('naïve ', id)",
    "string that is not UTF-8": "cast(concat(x'ff', unhex(hex(id))) as string)",
    "empty string": "if(id = 0, '', 'b')",
    "binary": "unhex(hex(id))",
    "decimal": "cast(id as decimal(38, 10)) / 3",
    "date": "date_add(date'0000-12-30', cast(id as int))",
    "timestamp": "timestamp_micros(id * 1000001 - 3)",
    "timestamp_ntz": "timestamp_ntz'2024-03-31 02:30:00' + make_dt_interval(0, cast(id as int))",
    "time": "time'12:00:00' + make_dt_interval(0, 0, cast(id as int))",
    "interval day to second": "make_dt_interval(cast(id - 3 as int), 1, 2, 3.000004)",
    "interval day to hour": "cast(make_dt_interval(0, cast(id as int)) as interval day to hour)",
    "interval year to month": "make_ym_interval(-1, cast(id as int))",
    "interval year": "cast(make_ym_interval(cast(id as int), 0) as interval year)",
    "void": "null",
    "array": "if(id = 3, array(), array(id, null))",
    "array of array": "array(array('a'), if(id = 3, null, array(cast(id as string), null)))",
    "struct": "named_struct('a b', id, 'c', cast(id as string))",
    "struct of struct": "named_struct('a', if(id = 3, null, named_struct('b', array(id))))",
    "struct without fields": "struct()",
    "interval in array in struct": "named_struct('a', array(make_ym_interval(0, cast(id as int))))",
}
FLOATS = "element_at(array({}), cast(id + 1 as int))".format(
    ", ".join(
        f"cast({one} as {{0}})"
        for one in ("'nan'", "-0.0d", "0.0d", "1.5", "'-inf'", "0.1", "sqrt(-1)")
    )
)
for of in ("float", "double"):
    number = FLOATS.format(of)
    EVERY_TYPE |= {
        of: number,
        f"array of {of}": f"array(id % 2, {number})",
        f"struct of {of}": f"named_struct('a', {number}, 'b', array({number}))",
    }


def counted(df: DataFrame, keys: Keys) -> DataFrame:
    """How often each key comes, by way of hashables."""

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(batches).combine_chunks()
        arrays = [column.combine_chunks() for column in table.columns]
        codes, distinct = keys.encode(arrays, len(table))
        stored = StateCodec().decode(StateCodec().encode(distinct))
        counts = pa.array(np.bincount(codes))
        schema = [*keys.names, "n"]
        yield pa.RecordBatch.from_arrays([*keys.decode(stored), counts], schema)

    types = T.StructType([*keys.carried, T.StructField("n", T.LongType())])
    # `mapInArrow` does not take all names.
    plain = [column.alias(f"k{at}") for at, column in enumerate(keys.to_carried())]
    carried = df.coalesce(1).select(*plain).mapInArrow(count, types)
    return carried.select(*keys.from_carried(), "n")


def assert_counts_as_spark(df: DataFrame, key: str | list[str]) -> None:
    keys = Keys.of(df.schema, key)
    ours, spark = counted(df, keys), df.groupBy(*keys.columns()).agg(F.count("*").alias("n"))
    assert [(f.name, f.dataType.simpleString()) for f in ours.schema] == [
        (f.name, f.dataType.simpleString()) for f in spark.schema
    ]
    both = ours.unionAll(spark.withColumn("n", -F.col("n")))
    paired = both.groupBy(*keys.columns()).agg(F.sum("n").alias("n"), F.count("*").alias("sides"))
    wrong = paired.agg(F.count_if(F.expr("n != 0 or sides != 2")), F.count("*")).first()
    assert wrong is not None
    assert wrong[0] == 0
    assert wrong[1] > 0


@pytest.fixture(scope="module")
def ids(spark: SparkSession) -> Iterator[DataFrame]:
    # TIME is there but off by default.
    spark.conf.set("spark.sql.timeType.enabled", "true")
    yield spark.range(ROWS).select((F.col("id") % 7).alias("id"), (F.col("id") % 5).alias("n"))
    spark.conf.unset("spark.sql.timeType.enabled")


@pytest.mark.parametrize("name", EVERY_TYPE)
def test_keys_are_those_that_spark_groups_by(ids: DataFrame, name: str) -> None:
    assert_counts_as_spark(
        ids.select(F.expr(f"if(n = 0, null, {EVERY_TYPE[name]})").alias("k")), "k"
    )


def test_keys_of_columns_that_are_never_null(ids: DataFrame) -> None:
    assert_counts_as_spark(ids.select(F.expr("named_struct('a', array(id))").alias("k")), "k")


def test_keys_of_several_columns_with_awkward_names(ids: DataFrame) -> None:
    columns = {
        "a.b": EVERY_TYPE["string"],
        "c`d": f"if(n = 1, null, {EVERY_TYPE['double']})",
        "window": "n",
    }
    df = ids.select(*(F.expr(e).alias(name) for name, e in columns.items()))
    assert_counts_as_spark(df, list(columns))


def test_timestamps_are_the_same_instants_in_every_time_zone(ids: DataFrame) -> None:
    conf = ids.sparkSession.conf
    before = conf.get("spark.sql.session.timeZone")
    conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    try:
        assert_counts_as_spark(
            ids.select(F.expr(EVERY_TYPE["timestamp"]).alias("k"), F.array("k").alias("many")),
            ["k", "many"],
        )
    finally:
        conf.set("spark.sql.session.timeZone", before)


SIMPLE: list[tuple[T.DataType, pa.DataType, st.SearchStrategy[Any]]] = [
    (T.LongType(), pa.int64(), st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)),
    (T.StringType(), pa.string(), st.text("aé\0", max_size=2)),
    (T.BinaryType(), pa.binary(), st.binary(max_size=1)),
    (T.BooleanType(), pa.bool_(), st.booleans()),
    (T.DecimalType(3, 1), pa.decimal128(3, 1), st.decimals(-9, 9, places=1)),
]
TYPES = st.recursive(
    st.sampled_from(SIMPLE),
    lambda inner: st.one_of(
        inner.map(lambda of: (T.ArrayType(of[0]), pa.list_(of[1]), _lists(of[2]))),
        st.lists(inner, min_size=1, max_size=3).map(lambda of: _struct(of)),
    ),
    max_leaves=4,
)


def _lists(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(st.none() | of, max_size=3)


def _struct(of: list[Any]) -> tuple[T.DataType, pa.DataType, st.SearchStrategy[Any]]:
    names = [f"f{place}" for place in range(len(of))]
    spark = T.StructType([T.StructField(n, o[0]) for n, o in zip(names, of, strict=True)])
    arrow = pa.struct([(n, o[1]) for n, o in zip(names, of, strict=True)])
    values = {n: st.none() | o[2] for n, o in zip(names, of, strict=True)}
    return spark, arrow, st.fixed_dictionaries(values)


def as_hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(as_hashable(value[name]) for name in sorted(value))
    return tuple(map(as_hashable, value)) if isinstance(value, list) else value


@given(st.data())
def test_keys_are_numbered_in_the_order_of_their_first_row(data: st.DataObject) -> None:
    columns = data.draw(st.lists(TYPES, min_size=1, max_size=3))
    rows = data.draw(st.lists(st.tuples(*(st.none() | values for _, _, values in columns))))
    skipped = data.draw(st.integers(0, len(rows)))
    fields = [T.StructField(f"k{at}", column[0]) for at, column in enumerate(columns)]
    arrays = [
        pa.array([row[at] for row in rows], column[1]).slice(skipped)
        for at, column in enumerate(columns)
    ]
    codes, distinct = Keys(fields).encode(arrays)

    expected: dict[Any, int] = {}
    wanted = [as_hashable(list(row)) for row in rows[skipped:]]
    wanted = [row[0] for row in wanted] if len(columns) == 1 else wanted
    for row in wanted:
        expected.setdefault(row, len(expected))
    assert distinct == list(expected)
    assert codes.tolist() == [expected[row] for row in wanted]
    decoded = Keys(fields).decode(distinct)
    for array, back in zip(arrays, decoded, strict=True):
        assert back.take(pa.array(codes)).to_pylist() == array.to_pylist()


def test_keys_from_a_window_come_back_from_its_arrays() -> None:
    one = Keys([T.StructField("k", T.ShortType())])
    assert one.decode(np.array([3, 1, 3]))[0].equals(pa.array([3, 1, 3], pa.int16()))
    two = Keys([T.StructField("a", T.StringType()), T.StructField("b", T.DateType())])
    keys = np.fromiter([("x", None), (None, 1)], object)
    a, b = two.decode(keys)
    assert a.to_pylist() == ["x", None]
    assert b.to_pylist() == [None, date(1970, 1, 2)]


def test_floats_are_ints_so_that_nan_equals_itself() -> None:
    floats = Keys([T.StructField("k", T.DoubleType())])
    other_nan = np.array([0xFFF8_0000_0000_0001], np.uint64).view(np.float64)
    array = pa.array(np.concatenate([[np.nan, 0.0], other_nan, [-0.0, 1.0]]))
    codes, distinct = floats.encode([array])
    assert codes.tolist() == [0, 1, 0, 1, 2]
    assert all(type(key) is int for key in distinct)
    assert str(floats.decode(distinct)[0].to_pylist()) == "[nan, 0.0, 1.0]"


def test_dates_and_timestamps_beyond_pythons_range() -> None:
    keys = Keys([T.StructField("d", T.DateType()), T.StructField("t", T.TimestampType())])
    days = pa.array([-(2**31), 2**31 - 1], pa.int32()).view(pa.date32())
    times = pa.array([-(2**63), 2**63 - 1], pa.int64()).view(pa.timestamp("us", "UTC"))
    codes, distinct = keys.encode([days, times])
    assert codes.tolist() == [0, 1]
    assert distinct == [(-(2**31), -(2**63)), (2**31 - 1, 2**63 - 1)]
    back = keys.decode(distinct)
    assert back[0].equals(days)
    assert back[1].equals(times)


def test_large_strings() -> None:
    keys = Keys([T.StructField("k", T.StringType())])
    array = pa.array([b"b", None, b"\xff", b"b"], pa.large_binary()).view(pa.large_string())
    codes, distinct = keys.encode([array])
    assert codes.tolist() == [0, 1, 2, 0]
    assert keys.decode(distinct)[0].cast(pa.binary()).to_pylist() == [b"b", None, b"\xff"]


def test_without_key_columns_there_is_one_key() -> None:
    keys = Keys.of(T.StructType([T.StructField("a", T.LongType())]), [])
    codes, distinct = keys.encode([], rows=3)
    assert codes.tolist() == [0, 0, 0]
    assert distinct == [()]
    assert keys.decode(distinct) == []
    assert keys.encode([], rows=0)[1] == []
    with pytest.raises(InvalidArgumentError, match="rows is missing"):
        keys.encode([])


def test_as_many_arrays_as_key_columns() -> None:
    keys = Keys([T.StructField("a", T.LongType())])
    with pytest.raises(InvalidArgumentError, match="columns has 2 arrays; the key has 1 columns"):
        keys.encode([pa.array([1]), pa.array([1])])


SCHEMA = T.StructType(
    [
        T.StructField("sensor", T.StringType(), nullable=False, metadata={"comment": "x"}),
        T.StructField("Site", T.IntegerType()),
        T.StructField("twice", T.IntegerType()),
        T.StructField("twice", T.IntegerType()),
        T.StructField("map", T.MapType(T.StringType(), T.LongType())),
        T.StructField("variants", T.ArrayType(T.VariantType())),
        T.StructField(
            "maps", T.StructType([T.StructField("m", T.MapType(T.LongType(), T.LongType()))])
        ),
        T.StructField("calendar", T.CalendarIntervalType()),
        T.StructField("no case", T.StringType("UTF8_LCASE")),
        T.StructField("same", T.StructType([T.StructField("a", T.LongType())] * 2)),
    ]
)


def test_the_key_argument_names_columns() -> None:
    assert Keys.of(SCHEMA, "sensor").fields == [T.StructField("sensor", T.StringType(), False)]
    assert Keys.of(SCHEMA, ("Site", "sensor")).names == ["Site", "sensor"]
    assert Keys.of(SCHEMA, ["Site"]).carried == [T.StructField("Site", T.IntegerType())]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("sensr", "key: the DataFrame has no column 'sensr'; did you mean 'sensor'?"),
        ("site", "did you mean 'Site'?"),
        ("q", "it has 'sensor', 'Site'"),
        (["sensor", "sensor"], "key names 'sensor' twice"),
        ("twice", "key: the DataFrame has 2 columns 'twice'"),
        (None, "key is None; give the name of a column, a list of names, or [] for no key"),
        ([1], "key is [1]"),
        ({"sensor"}, "key is {'sensor'}"),
        ("map", "key: column 'map' is or holds map<string,bigint>, which cannot be a key"),
        ("variants", "key: column 'variants' is or holds variant"),
        (["Site", "maps"], "key: column 'maps' is or holds map<bigint,bigint>"),
        ("calendar", "key: column 'calendar' is or holds interval"),
        ("no case", "string collate UTF8_LCASE, which equals other strings"),
        ("same", "with two fields of one name"),
    ],
)
def test_bad_key_arguments(key: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        Keys.of(SCHEMA, key)
    assert message in str(raised.value)


def test_hashables_survive_the_store() -> None:
    keys = [None, True, 3, "a\udcff", b"\0", Decimal("1.10"), (1, (None, "b"))]
    assert StateCodec().decode(StateCodec().encode(keys)) == keys
