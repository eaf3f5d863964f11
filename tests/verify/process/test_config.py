from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.verify.machine import Mode, Model
from holdfast.verify.process.config import Config, VerifierHost, parse_memory

WHOLE = """
model = "crash"
mode = "blocking"
storage = "shared"
slots = "slots"
verifiers = "all-to-all"

[replica]
cores = 2

[[pools]]
name = "north"
hosts = ["n1", "n2"]
master = "spark://n1:7077"
cores = 16

[pools.spark]
"spark.executor.memory" = "2g"
"""


def read(folder: Path, text: str) -> Config:
    path = folder / "verify.toml"
    path.write_text(text)
    return Config.read(path)


def test_a_file_is_read(tmp_path: Path) -> None:
    config = read(tmp_path, WHOLE)
    assert config.model is Model.CRASH
    assert config.mode is Mode.BLOCKING
    assert config.storage == str(tmp_path / "shared")
    assert config.slots == str(tmp_path / "slots")
    assert config.verifiers == "all-to-all"
    assert config.replica.cores == 2
    assert config.pools[0].spark == {"spark.executor.memory": "2g"}


def test_verifiers_have_hosts_of_their_own(tmp_path: Path) -> None:
    text = '[[verifiers]]\naddress = "v1"\nlaunch = ["ssh", "v1"]\nwork = "/var/lib/holdfast"'
    (found,) = read(tmp_path, text).override({"faults": 2}).verifiers  # type: ignore[misc]
    wanted = VerifierHost(address="v1", launch=("ssh", "v1"), work="/var/lib/holdfast")
    assert found == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("modle = 1", "unknown field `modle`"),
        ('model = "evil"', r"Invalid enum value 'evil' - at `\$.model`"),
        ("verifiers = 0", "verifiers: 0 is too few"),
        ("verifiers = []", "verifiers: is empty; name one host or more"),
        ('[[verifiers]]\naddress = ""', r"verifiers #1 \(\): address: is empty"),
        ('[[verifiers]]\naddress = "v1"\nport = 70000', r"#1 \(v1\): port: 70000 is none"),
        ('[[verifiers]]\naddress = "v1"\nkey = "my.key"', r"#1 \(v1\): key: my.key is relative"),
        ("restarts = -1", "restarts: -1 is too few"),
        ('quota = "much"', "quota: 'much' is no amount of memory"),
        (
            'storage = "s"\n[[pools]]\nname = "a"\nhosts = ["x"]\nstorage = "t"\n'
            '[[pools]]\nname = "b"\nhosts = ["y"]\nstorage = "t"',
            r"pools #2 \(b\): storage: t is that of others too",
        ),
        ("price = -0.5", "price: -0.5 is less than nothing"),
        ('[replica]\nmemory = "lots"', "'lots' is no amount of memory; write 512m"),
        ('[[pools]]\nname = "a"\nhosts = []', r"pools #1 \(a\): has no hosts"),
        (
            '[[pools]]\nname = "a"\nhosts = ["x"]\n[[pools]]\nname = "b"\nhosts = ["x"]',
            r"pools #2 \(b\): host x is in pool a too",
        ),
        (
            '[[pools]]\nname = "a"\nhosts = ["x"]\nmaster = "spark://x:7077"',
            r"pools #1 \(a\): cores: is missing.* of spark://x:7077 .*as cores = 16",
        ),
        (
            '[[pools]]\nname = "a"\nhosts = ["x"]\nspark = {"spark.master" = "yarn"}',
            r"pools #1 \(a\): cores: is missing.* of yarn ",
        ),
        ("model =", "verify.toml: "),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message) as found:
        read(tmp_path, text)
    assert "verify.toml" in str(found.value)


@pytest.mark.parametrize("master", ["", "local", "local[4]"])
def test_replicas_that_share_no_cores_need_no_bound(tmp_path: Path, master: str) -> None:
    text = f'[[pools]]\nname = "a"\nhosts = ["x"]\nmaster = "{master}"'
    assert read(tmp_path, text).pools[0].cores is None


def settings(folder: Path, master: str, spark: str = "", cores: int = 4) -> dict[str, str]:
    text = (
        f"[replica]\ncores = {cores}\n"
        f'[[pools]]\nname = "a"\nhosts = ["x"]\nmaster = "{master}"\ncores = 16\n{spark}'
    )
    config = read(folder, text)
    return config.settings_of(config.pools[0])


@pytest.mark.parametrize("master", ["yarn", "k8s://https://x:6443"])
def test_a_cluster_manager_is_asked_for_so_many_executors(tmp_path: Path, master: str) -> None:
    """`spark.cores.max` is nothing to it, and its default is two executors."""
    assert settings(tmp_path, master) == {
        "spark.master": master,
        "spark.executor.instances": "1",
        "spark.executor.cores": "4",
        "spark.executor.memory": "1g",
        "spark.dynamicAllocation.enabled": "false",
    }
    found = settings(tmp_path, master, 'spark = { "spark.executor.cores" = "2" }')
    assert (found["spark.executor.instances"], found["spark.executor.cores"]) == ("2", "2")
    assert found["spark.executor.memory"] == f"{1 << 19}k", "1g for both of them"
    dynamic = (
        'spark = { "spark.dynamicAllocation.enabled" = "true", "spark.executor.cores" = "1", '
        '"spark.dynamicAllocation.maxExecutors" = "4" }'
    )
    assert settings(tmp_path, master, dynamic)["spark.dynamicAllocation.maxExecutors"] == "4"


def test_a_standalone_master_is_asked_for_so_many_cores(tmp_path: Path) -> None:
    found = settings(tmp_path, "spark://x:7077", 'spark = { "spark.executor.cores" = "1" }')
    assert found["spark.cores.max"] == "4"
    assert found["spark.executor.memory"] == f"{1 << 18}k", "1g for the four of them"
    assert found["spark.executor.cores"] == "1"
    assert "spark.executor.instances" not in found


@pytest.mark.parametrize(
    ("master", "name", "value", "message"),
    [
        ("yarn", "spark.executor.instances", "2", "executor.instances x spark.executor.cores is 8"),
        ("yarn", "spark.executor.cores", "3", "executor.instances x spark.executor.cores is 3"),
        ("yarn", "spark.executor.cores", "many", "is no number, and a replica takes 4 cores"),
        ("k8s://x", "spark.dynamicAllocation.enabled", "true", "maxExecutors x .* is no number"),
        ("spark://x:7077", "spark.cores.max", "8", "spark.cores.max is 8, and a replica takes 4"),
        ("yarn", "spark.executor.memory", "2g", "is 2g for each executor, and a replica takes 1g"),
        ("yarn", "spark.executor.memory", "much", "spark.executor.memory: 'much' is no amount"),
    ],
)
def test_settings_that_take_other_than_is_counted_are_refused(
    tmp_path: Path, master: str, name: str, value: str, message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"pools #1 \(a\): spark: .*{message}"):
        settings(tmp_path, master, f'memory = "8g"\nspark = {{ "{name}" = "{value}" }}')


@pytest.mark.parametrize("master", ["", "local[8]"])
def test_embedded_spark_is_as_the_master_says(tmp_path: Path, master: str) -> None:
    assert settings(tmp_path, master) == {
        "spark.master": master or "local[4]",
        "spark.driver.memory": "1g",
    }


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="No such file"):
        Config.read(tmp_path / "none.toml")


def test_options_go_before_the_file(tmp_path: Path) -> None:
    config = read(tmp_path, WHOLE).override({"mode": "hybrid", "faults": 2, "model": None})
    assert (config.mode, config.faults, config.model) == (Mode.HYBRID, 2, Model.CRASH)
    assert config.pools[0].name == "north"
    with pytest.raises(InvalidArgumentError, match="Invalid enum value 'fast'"):
        config.override({"mode": "fast"})


def test_memory() -> None:
    assert parse_memory("m", "512m") == 512 << 20
    assert parse_memory("m", "2G") == 2 << 30


def test_hosts_may_be_exchanged_only_where_nobody_lies(tmp_path: Path) -> None:
    pools = "".join(
        f'[[pools]]\nname = "{name}"\nhosts = ["{name}1"]\nmaster = "{master}"\ncores = 4\n'
        for name, master in {"a": "spark://m:7077", "b": "spark://m:7077", "c": "yarn"}.items()
    )
    crash = read(tmp_path, f'model = "crash"\n{pools}')
    assert crash.exchangeable == {"a": "spark://m:7077", "b": "spark://m:7077"}
    assert read(tmp_path, pools).exchangeable == {}
