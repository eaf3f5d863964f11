"""Single nodes as processes: what they load, what they answer, how they end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.edge import EdgeTrial
from holdfast.edge.process.client import Client
from holdfast.edge.process.config import Layout
from holdfast.edge.process.demo import write_plant
from holdfast.edge.process.fleet import Fleet
from holdfast.errors import InvalidArgumentError, SilentError


@pytest.mark.parametrize("module", ["sensor_process", "nodes"])
def test_a_node_loads_neither_spark_nor_arrow_nor_pandas(module: str) -> None:
    script = (
        f"import holdfast.cli, holdfast.edge.process.{module}, sys; print(*sys.modules, sep='\\n')"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    loaded = {name.partition(".")[0] for name in ended.stdout.split()}
    assert "msgspec" in loaded
    assert loaded & {"pyspark", "py4j", "pyarrow", "pandas"} == set()


def test_a_child_that_runs_has_loaded_none_of_them_either(tmp_path: Path) -> None:
    with EdgeTrial(tmp_path, children=2, sensors=1, rate=200) as trial:
        pids = [trial.fleet.processes[name].pid for name in ("c1", "s1", "root")]
        for pid in pids:
            mapped = Path(f"/proc/{pid}/maps").read_text()
            assert "numpy" in mapped
            assert not any(word in mapped for word in ("pyarrow", "pandas", "libjvm"))
        # A query that is added while running, and one that is another under its name.
        body = {"name": "most", "aggregate": "max", "size": "1s", "slide": None, "keyed": False}
        trial.client.ask("root", "add", dict(body))
        trial.client.ask("root", "add", dict(body))
        with pytest.raises(InvalidArgumentError, match="another"):
            trial.client.ask("root", "add", {**body, "aggregate": "min"})
        trial.wait(lambda: any(each["query"] == "most" for each in trial.windows()))
        assert [each["id"] for each in trial.client.ask("root", "queries")] == ["count", "most"]
        with pytest.raises(InvalidArgumentError, match="cannot tell 'secrets'"):
            trial.client.ask("root", "secrets")
        for what in ("add", "remove", "dismiss", "windows"):
            for body in ("x", 5, {"first": "x", "sensor": [], "name": []}):
                with pytest.raises(InvalidArgumentError):
                    trial.client.ask("root", what, body)
        processes = list(trial.fleet.processes.values())
    assert all(process.poll() is not None for process in processes)


def test_with_a_key_only_those_who_know_it_are_answered(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("0123456789abcdef0123456789abcdef\n")
    file = write_plant(tmp_path, children=1, sensors=0)
    open_layout = Layout.read(file)
    file.write_text('[security]\ntoken_file = "key"\n' + file.read_text())
    layout = Layout.read(file)
    with Fleet(layout, file, tmp_path / "logs") as fleet, Client(layout) as client:
        fleet.start("root")
        assert client.ask("root", "status", patience=20)["role"] == "root"
        with Client(open_layout) as stranger, pytest.raises(SilentError):
            stranger.ask("root", "status", patience=1)
        assert client.ask("root", "status")["network"]["refused"] > 0


def test_the_command_says_which_one_a_node_is_for(tmp_path: Path) -> None:
    file = write_plant(tmp_path, children=1, sensors=1)
    command = [sys.executable, "-m", "holdfast", "edge", "sensor", str(file), "c1"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "is a child; run holdfast edge child" in ended.stderr
