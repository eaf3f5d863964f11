"""Files that are wrong as files, and files that are hostile."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdfast.pipeline.topology import Topology, TopologyError
from holdfast.pipeline.topology.reference import EXAMPLE
from tests.pipeline.topology.builders import changed, fleet, in_file, in_python, problems_in_file


def refused(data: bytes | str, folder: Path) -> str:
    path = folder / "fleet.toml"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    with pytest.raises(TopologyError) as caught:
        Topology.read(path)
    return str(caught.value)


def read_or_error(path: Path) -> Topology | TopologyError:
    try:
        return Topology.read(path)
    except TopologyError as error:
        return error


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"name = 'a'\nname = 'b'\n", "is no TOML: Cannot overwrite a value"),
        (b"[streams.a]\n[streams.a]\n", "is no TOML: Cannot declare"),
        (b"name = \n", "is no TOML: Invalid value (at line 1"),
        (b"name = 'a'\n# caf\xe9\n", "is not UTF-8 in line 2; save it in that encoding"),
        (b"\xff\xfen\x00a\x00", "is not UTF-8 in line 1"),
        (b"\x00\x01\x02", "is no TOML"),
        (b"a = " + b"[" * 20_000, "nests too deeply"),
        (b"a = " + b"{a=" * 20_000, "nests too deeply"),
        (b"a = " + b"9" * 5_000, "is no TOML"),
        (b"a = 2020-13-45\n", "is no TOML"),
        (b"#" * 300_000, "has more than 256 KiB; make several files of it"),
        (b"", "bucket: is missing"),
    ],
)
def test_what_is_no_topology_at_all(data: bytes, says: str, tmp_path: Path) -> None:
    told = refused(data, tmp_path)
    assert told.startswith(f"{tmp_path / 'fleet.toml'}: ")
    assert says in told


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path, Path("/dev/zero"), Path("a\0b")):
        with pytest.raises(TopologyError) as caught:
            Topology.read(path)
        assert str(caught.value).startswith(f"{path}: ")


def test_a_byte_order_mark_and_windows_lines_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_bytes(b"\xef\xbb\xbf" + EXAMPLE.replace("\n", "\r\n").encode())
    assert Topology.read(str(path)).name == "fleet"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("stream", {}), "stream: there is no such field (did you mean 'streams'?)"),
        (("streams", "readings", "adress", "a"), "[streams.readings] adress: there is no such field"
         " (did you mean 'address'?)"),
        (("streams", "readings", "path", "a"), "[streams.readings] path: is not for source = 'push'"
         " but for files, edge; leave it out"),
        (("stages", "clean", "replica", []), "[stages.clean] replica: there is no such field"
         " (did you mean 'replicas'?)"),
        (("stages", "means", "replicas", 1, "port", 5), "[stages.means] replicas #2 port: there"),
        (("stages", "means", "steps", 1, "window", "sise", "1m"), "[stages.means] steps #2"
         " window.sise: there is no such field (did you mean 'size'?)"),
        (("stages", "means", "steps", 1, "schema", {}), "[stages.means] steps #2 schema: there is"),
        (("stages", "clean", "steps", 0, "keys", []), "[stages.clean] steps #1 keys: there is no"),
        (("sinks", "archive", "url", "a"), "[sinks.archive] url: is not for sink = 'parquet'"),
        (("security", {"tokn_env": "A", "token_env": "A"}), "[security] tokn_env: there is no"),
    ],
)  # fmt: skip
def test_unknown_fields(change: tuple[Any, ...], says: str, tmp_path: Path) -> None:
    (problem,) = problems_in_file(changed(*change), tmp_path)
    assert str(problem).startswith(says)
    assert "; " in problem.message


def test_a_schema_where_the_columns_are_given(tmp_path: Path) -> None:
    raw = changed("streams", "r", {"source": "rate", "rows_per_second": 1, "schema": {"a": "int"}})
    raw["streams"]["r"]["address"] = "127.0.0.1:9"
    (problem,) = problems_in_file(raw, tmp_path)
    assert str(problem).startswith("[streams.r] schema: is not for source = 'rate'")


def test_the_fields_of_an_unknown_source_are_not_called_wrong(tmp_path: Path) -> None:
    raw = changed("streams", "others", "source", "file")
    (problem,) = problems_in_file(raw, tmp_path)
    assert problem.field == "source"


@pytest.mark.parametrize(
    "value",
    ["0x" + "f" * 9_000, "nan", "-inf", "1979-05-27T07:32:00Z", "07:32:00", "[[[[[1]]]]]",
     "{ a = { b = { c = [] } } }", "true", '"\\u0000"', '"\\U0010FFFF"', "-1", "0.0", '""'],
)  # fmt: skip
def test_garbage_in_every_place_is_told(value: str, tmp_path: Path) -> None:
    lines = [line for line in EXAMPLE.splitlines() if " = " in line and "{" not in line[:3]]
    for line in lines:
        if line.endswith("[") or line.startswith(" "):
            continue
        text = EXAMPLE.replace(line, f"{line.split(' = ')[0]} = {value}", 1)
        (tmp_path / "fleet.toml").write_text(text)
        told = str(read_or_error(tmp_path / "fleet.toml"))
        assert len(told) < 20_000
        assert "\x00" not in told


def test_names_that_are_hostile(tmp_path: Path) -> None:
    told = refused(EXAMPLE + '\n["sinks"."a\\nb: [red]\\u001b[31m"]\nsink = "console"\n', tmp_path)
    assert "\x1b" not in told
    assert all(line.startswith(str(tmp_path)) for line in told.splitlines())
    told = refused(EXAMPLE + f'\n[sinks.{"x" * 5_000}]\nsink = "console"\n', tmp_path)
    assert len(told) < 1_000


SEEDS = range(1_500)


def test_mutated_files_are_read_or_refused(tmp_path: Path) -> None:
    """Thousands of files near a right one: nothing but TopologyError is ever raised."""
    data, path = EXAMPLE.encode(), tmp_path / "fleet.toml"
    read = 0
    for seed in SEEDS:
        random = Random(seed)
        mutant = bytearray(data)
        for _ in range(random.randint(1, 4)):
            at, other = random.randrange(len(mutant)), random.randrange(len(mutant))
            match random.randrange(4):
                case 0:
                    mutant[at] = random.randrange(256)
                case 1:
                    del mutant[at : at + random.randint(1, 20)]
                case 2:
                    mutant[at:at] = mutant[other : other + random.randint(1, 40)]
                case _:
                    mutant[at : at + 1] = random.choice([b"-", b"[", b'"', b"\n", b"{", b"=", b"9"])
        path.write_bytes(mutant)
        topology = read_or_error(path)
        if isinstance(topology, Topology):
            read += 1
            path.write_text(topology.text())
            assert Topology.read(path) == topology, seed
        else:
            assert topology.problems, seed
    assert read > 10


GARBAGE: list[Any] = [
    None, True, -1, 0, 2**70, 0.5, float("nan"), "", " ", "x", "x:1", "1s", "stime", "clean", [],
    [[]], [None], [1], ["x"], {}, {"a": 1}, {"where": "x"}, {"window": {}}, "\ud800", "a" * 1000,
    "(((", "'", "SELECT", b"x", object(), Path("x"),
]  # fmt: skip


def test_mutated_values_are_taken_or_refused() -> None:
    for seed in SEEDS:
        random = Random(seed)
        raw = fleet()
        for _ in range(random.randint(1, 3)):
            table: Any = raw
            while True:
                keys = list(table) if isinstance(table, dict) else list(range(len(table)))
                if not keys:
                    break
                key = random.choice(keys)
                if not isinstance(table[key], dict | list) or random.random() < 0.2:
                    table[key] = random.choice(GARBAGE)
                    break
                table = table[key]
        try:
            in_python(raw).text()
        except TopologyError as error:
            str(error).encode()
        except TypeError as error:
            # Python itself refuses arguments that there are not.
            if "unexpected keyword" not in str(error):
                raise


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"[stages.s{at}]\ninputs=['s{at + 1}']\nretain='1s'\n" for at in range(6_000)),
        "".join(f"[stages.s{at}]\ninputs=['s{at}']\n" for at in range(8_000)),
        "[stages.s]\ninputs=[" + "".join(f"'{at}'," for at in range(30_000)) + "]",
        "[stages.s]\ninputs=[" + "'a'," * 60_000 + "]",
        "".join(f"x{at}=1\n" for at in range(25_000)),
        "[streams.s]\nsource='push'\nschema={" + ",".join(f"{at}='i'" for at in range(9999)) + "}",
        "[stages.s]\nsteps=[{where=\"" + "(" * 200_000 + "\"}]",
        "[stages.s]\nsteps=[{where=\"" + "''" * 100_000 + "'\"}]",
        "[stages.s]\nsteps=[{where=\"" + "/*" * 100_000 + "\"}]",
        "[stages.s]\nsteps=[{select=['" + "a AS " * 40_000 + "(']}]",
        "[stages.s]\nsteps=[{sql='SELECT FROM input " + "union " * 30_000 + "'}]",
        "[stages.s]\nsteps=[{window={aggregates=['" + "sum( " * 40_000 + "']}}]",
        "[streams.s]\nsource='push'\nschema={a='" + "array<" * 40_000 + "'}",
        "[streams.s]\naddress='" + "a." * 100_000 + "'",
        "bucket='" + "1s " * 60_000 + "!'",
    ],
    ids=range(15),
)  # fmt: skip
def test_large_hostile_files_are_refused_soon(text: str, tmp_path: Path) -> None:
    assert len(text) < 256 * 1024
    started = time.process_time()
    refused(text, tmp_path)
    assert time.process_time() - started < 10


def test_a_long_chain_is_no_trouble(tmp_path: Path) -> None:
    raw = fleet()
    raw["stages"] = {
        f"s{at}": {
            "inputs": [f"s{at - 1}" if at else "readings"],
            "replicas": [f"127.0.0.1:{10_000 + at}"],
            "retain": "1s",
        }
        for at in range(1_500)
    }
    raw["sinks"] = {}
    topology = in_file(raw, tmp_path)
    assert topology.order()[-1] == "s1499"
    assert len(topology.layers()) == 1_501
