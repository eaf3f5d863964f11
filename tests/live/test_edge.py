"""An edge of real processes, broken: whatever happens to its nodes, every event counts once."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from harness.edge import EdgeTrial
from holdfast.transport.proxy import Proxy

QUERIES = {
    "count": {"aggregate": "count", "size": "1s"},
    "sum": {"aggregate": "sum", "size": "1s", "slide": "500ms"},
}
WINDOW = 1_000_000


def middle_of_next(trial: EdgeTrial, part: float = 0.5) -> int:
    """Sleep into a window; its end."""
    start = (int(time.time() * 1e6) // WINDOW + 1) * WINDOW
    trial.sleep_to(start + int(WINDOW * part))
    return start + WINDOW


def test_children_are_killed_and_one_comes_back(tmp_path: Path) -> None:
    with EdgeTrial(tmp_path, rate=2_000, queries=QUERIES) as trial:
        end = middle_of_next(trial)
        trial.fleet.kill("c3")
        trial.wait_for_window(end + WINDOW)
        assert set(trial.status("root")["groups"]["edge"]["owners"].values()).isdisjoint({"c3"})
        end = middle_of_next(trial)
        trial.fleet.kill("c1", "c7")
        trial.wait_for_window(end + WINDOW)
        trial.fleet.start("c3")
        trial.wait(lambda: "c3" in trial.status("root")["groups"]["edge"]["owners"].values())
        trial.wait_for_window(int(time.time() * 1e6) + WINDOW)
        assert trial.status("c3")["owned"] == [2]
        windows = trial.check()
        assert all(window["complete"] and not window["lost"] for window in windows)
        assert sum(window["replayed"] for window in windows) > 0
        memory = [trial.status(name)["memory"] for name in ("c2", "c4")]
        assert max(memory) < 80 << 20


def test_a_child_that_is_stopped_is_suspected_wrongly_and_harms_nobody(tmp_path: Path) -> None:
    with EdgeTrial(tmp_path, children=4, sensors=3, rate=2_000, queries=QUERIES) as trial:
        end = middle_of_next(trial)
        trial.fleet.signal("c2", signal.SIGSTOP)
        trial.wait_for_window(end)
        trial.fleet.signal("c2", signal.SIGCONT)
        trial.wait(lambda: trial.status("c2")["owned"] == [1])
        trial.wait_for_window(int(time.time() * 1e6) + WINDOW)
        trial.check()


def test_an_intermediate_and_a_link_and_the_root(tmp_path: Path) -> None:
    with Proxy(("127.0.0.1", 1)) as proxy:
        trial = EdgeTrial(
            tmp_path,
            children=3,
            sensors=2,
            layers=[2, 2],
            rate=2_000,
            queries=QUERIES,
            options={"s1": ["--route", f"c2=127.0.0.1:{proxy.port}"]},
        )
        host, port = trial.layout.children["c2"].address.split(":")
        proxy._target = (host, int(port))
        with trial:
            end = middle_of_next(trial)
            trial.fleet.kill("i11")
            trial.wait_for_window(end + WINDOW)
            proxy.cut()
            end = middle_of_next(trial)
            proxy.heal()
            trial.wait_for_window(end + WINDOW)
            trial.fleet.kill("root")
            trial.fleet.start("root", "i11")
            trial.wait_for_window(int(time.time() * 1e6) + WINDOW)
            trial.check()


@pytest.mark.parametrize("guarantee", ["at-least-once", "at-most-once"])
def test_weaker_guarantees_err_on_their_side_only(tmp_path: Path, guarantee: str) -> None:
    with EdgeTrial(
        tmp_path,
        children=3,
        sensors=2,
        rate=2_000,
        queries={"count": QUERIES["count"]},
        settings={"guarantee": guarantee},
    ) as trial:
        end = middle_of_next(trial)
        trial.fleet.kill("c2")
        trial.wait_for_window(end + WINDOW)
        expected = trial.expected()
        for window in trial.windows():
            right = expected.answer(window)
            if guarantee == "at-least-once":
                assert (window["answer"] or 0) >= (right or 0)
            else:
                assert (window["answer"] or 0) <= (right or 0)


def test_a_child_joins_and_the_one_it_takes_from_is_killed(tmp_path: Path) -> None:
    """The file of the others does not name it; sensors hear of it from whoever is left."""
    settings = {"spread": 2}
    with EdgeTrial(
        tmp_path, children=3, sensors=2, rate=2_000, queries=QUERIES, settings=settings
    ) as trial:
        trial.add_child("c4")
        owners = trial.wait(lambda: _owners(trial, "c4"))
        assert owners["3"] == "c4", "the first of those who have most has given its last"
        trial.fleet.kill("c3")
        trial.wait(lambda: "c3" not in _owners(trial, "c4").values())
        trial.wait_for_window(int(time.time() * 1e6) + WINDOW)
        trial.fleet.kill("root")
        trial.fleet.start("root")
        trial.wait_for_window(int(time.time() * 1e6) + WINDOW)
        assert trial.status("root")["groups"]["edge"]["members"] == ["c1", "c2", "c3", "c4"]
        assert all(window["complete"] for window in trial.check())


def _owners(trial: EdgeTrial, node: str) -> dict[str, str]:
    """Of the partitions, if the node has any."""
    owners = trial.status("root")["groups"]["edge"]["owners"]
    return owners if node in owners.values() else {}


def test_a_sensor_is_started_again_under_its_name(tmp_path: Path) -> None:
    with EdgeTrial(tmp_path, children=3, sensors=2, rate=2_000, queries=QUERIES) as trial:
        middle_of_next(trial)
        trial.restart_sensor("s1")
        trial.wait_for_window(int(time.time() * 1e6) + WINDOW)
        assert trial.status("root")["groups"]["edge"]["sensors"] == ["s1", "s2"]
        windows = trial.check()
        assert windows[0]["complete"], "before it left"
        assert windows[-1]["complete"], "and since it is back"
        assert not all(window["complete"] for window in windows), "it may have had more to say"
