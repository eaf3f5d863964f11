"""What a stage publishes, and what is said about steps that do not fit, before anything runs."""

import pytest
from pyspark.sql.types import StructType

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.stages.compile import compile_stage, stream_schema
from holdfast.pipeline.stages.rows import check_columns
from holdfast.pipeline.topology import Join, Push, Select, Stage, Stream, Topology, Where, Window


def topology(stages, **schemas) -> Topology:
    ports = iter(range(7001, 7100))
    return Topology(
        name="t",
        bucket="1s",
        streams={
            name: Stream(source=Push(schema=schema), address=f"127.0.0.1:{next(ports)}")
            for name, schema in schemas.items()
        },
        stages={
            name: Stage(inputs=inputs, replicas=[f"127.0.0.1:{next(ports)}"], steps=steps)
            for name, (inputs, steps) in stages.items()
        },
    )


A = {"k": "string", "v": "double"}


def published(spark, stages, name, **schemas) -> str:
    return stream_schema(spark, topology(stages, **schemas), name).simpleString()


def refused(spark, stages, name, **schemas) -> str:
    with pytest.raises(InvalidArgumentError) as caught:
        compile_stage(spark, topology(stages, **schemas), name)
    return str(caught.value)


def test_what_stages_publish(spark):
    window = Window(size="4s", slide="1s", keys=["k"], aggregates=["count() AS n", "sum(v) AS s"])
    stages = {
        "same": (["a", "b"], []),
        "some": (["same"], [Where("v > 0"), Select(["upper(k) AS k", "array(v) AS v"])]),
        "windows": (["a"], [window]),
        "after": (["windows"], [Select(["k", "window.end AS end", "s"])]),
        "pairs": (["a", "windows"], [Join(keys=["k"], within="2s")]),
        "clash": (["a", "b"], [Join(keys=["k"], within="2s")]),
    }
    both = {"a": A, "b": A}
    bounds = "struct<start:timestamp,end:timestamp>"
    wanted = {
        "a": "k:string,v:double",
        "same": "k:string,v:double",
        "some": "k:string,v:array<double>",
        "windows": f"k:string,window:{bounds},n:bigint,s:double",
        "after": "k:string,end:timestamp,s:double",
        "pairs": f"k:string,v:double,window:{bounds},n:bigint,s:double",
        "clash": "k:string,a_v:double,b_v:double",
    }
    for name, columns in wanted.items():
        assert published(spark, stages, name, **both) == f"struct<stime:timestamp,{columns}>"


def test_a_union_of_columns_that_only_spark_tells_apart_from_others(spark):
    """One has arrays without nulls, to Spark: they are of one type all the same."""
    stages = {
        "one": (["a"], [Select(["array(1.5D) AS x"])]),
        "other": (["a"], [Select(["array(v) AS x"])]),
        "both": (["one", "other"], []),
    }
    found = stream_schema(spark, topology(stages, a=A), "both")
    assert found["x"].dataType.containsNull


def test_many_layers_are_compiled_once_each(spark, monkeypatch):
    from holdfast.pipeline.stages import compile as module

    seen = []
    original = module._compile
    monkeypatch.setattr(
        module, "_compile", lambda *args: (seen.append(args[2]), original(*args))[1]
    )
    stages = {"s0": (["a", "b"], []), "t0": (["a", "b"], [])}
    for n in range(1, 4):
        for name in ("s", "t"):
            stages[f"{name}{n}"] = ([f"s{n - 1}", f"t{n - 1}"], [])
    compile_stage(spark, topology(stages, a=A, b=A), "s3")
    assert sorted(seen) == sorted(set(seen))


def test_inputs_that_differ_are_refused(spark):
    stages = {
        "one": (["a"], [Select(["k", "CAST(v AS int) AS v"])]),
        "both": (["a", "one"], []),
    }
    message = refused(spark, stages, "both", a=A)
    assert message.startswith("stages.both.inputs: a has")
    assert "join them" in message


def test_windows_that_do_not_fit(spark):
    def window(**given):
        return Window(**{"size": "4s", "keys": ["k"], "aggregates": ["count() AS n"]} | given)

    # Behind a select that Spark alone understands only Spark knows the columns.
    blind = Select(["upper(k)", "v AS window"])
    stages = {
        "key": (["a"], [Select(["upper(k)"]), window()]),
        "clash": (["a"], [blind, window(keys=["window"])]),
        "text": (["a"], [Select(["upper(k)", "k"]), window(aggregates=["sum(k)"])]),
    }
    message = refused(spark, stages, "key", a=A)
    assert message.startswith("stages.key.steps[1].window: ")
    assert "'k'" in message
    assert "two columns window" in refused(spark, stages, "clash", a=A)
    assert refused(spark, stages, "text", a=A).startswith("stages.text.steps[1].window: ")


def test_joins_that_do_not_fit(spark):
    stages = {
        "other": (["a"], [Select(["upper(k)", "v AS k"])]),
        "none": (["a"], [Select(["upper(k)"])]),
        "types": (["a", "other"], [Join(keys=["k"], within="1s")]),
        "missing": (["a", "none"], [Join(keys=["k"], within="1s")]),
        "taken": (["b", "c"], [Join(keys=["k"], within="1s")]),
    }
    schemas = {"a": A, "b": A | {"c_v": "int"}, "c": A}
    message = refused(spark, stages, "types", **schemas)
    assert "stages.types.steps[0].join.keys: k is string in a and double in other" in message
    assert "stages.missing.steps[0].join.keys: " in refused(spark, stages, "missing", **schemas)
    assert "two columns c_v" in refused(spark, stages, "taken", **schemas)


@pytest.mark.parametrize("name", ["_place", "_BODY", "stime"])
def test_names_that_are_taken(name):
    with pytest.raises(InvalidArgumentError, match=f"here: {name} is a name that Holdfast needs"):
        check_columns("here", StructType.fromDDL(f"`{name}` int").fields)
