from __future__ import annotations

from typing import Any

import pytest

from holdfast.config.settings import Refused
from holdfast.pipeline.topology.columns import Column, read_columns, read_schema, read_type


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("double", "double"),
        (" STRING ", "string"),
        ("long", "bigint"),
        ("Integer", "int"),
        ("byte", "tinyint"),
        ("decimal", "decimal(10,0)"),
        ("DEC( 12 )", "decimal(12,0)"),
        ("numeric(38,38)", "decimal(38,38)"),
        ("array<int>", "array<int>"),
        ("array < array<long> >", "array<array<bigint>>"),
        ("struct<a:int,b:string>", "struct<a:int,b:string>"),
        ("struct<a int, `b c`: array<real>>", "struct<a:int,`b c`:array<float>>"),
        ("timestamp_ltz", "timestamp"),
    ],
)
def test_types_in_one_spelling(text: str, read: str) -> None:
    assert read_type(text) == read
    assert read_type(read) == read


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is no type"),
        ("doubel", "did you mean 'double'?"),
        ("int int", "is no type"),
        ("map<string,int>", "use array<struct<key"),
        ("variant", "there are boolean"),
        ("decimal(39,0)", "1 to 38 digits"),
        ("decimal(5,6)", "1 to 38 digits"),
        ("decimal(0)", "1 to 38 digits"),
        ("decimal(a)", "is no type"),
        ("decimal(5", "is no type"),
        ("array<>", "is no type"),
        ("array<int", "is no type"),
        ("array(int)", "is no type"),
        ("struct<>", "name the parts"),
        ("struct<a:int,A:int>", "each once"),
        ("struct<a:int;b:int>", "is no type"),
        ("struct<5:int>", "name the parts"),
        ("array<" * 40 + "int" + ">" * 40, "nest types less deeply"),
        ("int; DROP TABLE x", "is no type"),
        (5, "5 is not a type"),
        (None, "None is not a type"),
    ],
)
def test_what_is_no_type(text: Any, says: str) -> None:
    with pytest.raises(Refused) as caught:
        read_type(text)
    (fault,) = caught.value.faults
    assert says in f"{fault.message}; {fault.remedy}"


def test_schemas_are_taken_as_mappings_and_as_pairs() -> None:
    schema = (Column("a", "int"), Column("b.c", "bigint"))
    assert read_schema({"a": "int", "b.c": "long"}) == schema
    assert read_schema([("a", "int"), ("b.c", "long")]) == schema
    assert read_schema(schema) == schema


def test_every_wrong_column_of_a_schema_is_told() -> None:
    with pytest.raises(Refused) as caught:
        read_schema({"a": "in", "b": "string", "c": 5})
    assert [fault.part for fault in caught.value.faults] == [".a", ".c"]


@pytest.mark.parametrize("name", ["stime", "STime", "", " ", "a\nb", 5, None, True])
def test_names_that_no_column_has(name: Any) -> None:
    with pytest.raises(Refused):
        read_columns([name])
    with pytest.raises(Refused):
        read_schema([(name, "int")])


@pytest.mark.parametrize("value", ["a", {"a": 1}, 5, None, ["a", "A"]])
def test_what_is_no_list_of_different_columns(value: Any) -> None:
    with pytest.raises(Refused):
        read_columns(value)
