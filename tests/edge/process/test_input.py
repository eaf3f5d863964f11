"""Whatever sensors are fed, no process ends: odd lines, states larger than a frame."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from random import Random

from harness.edge import EdgeTrial
from harness.poison import lines
from holdfast.errors import InvalidArgumentError

QUERIES = {
    "count": {"aggregate": "count", "size": "500ms"},
    "by_key": {"aggregate": "sum", "size": "500ms", "keyed": True},
    "quantiles": {"aggregate": "quantiles", "size": "1s", "slide": "500ms", "keyed": True},
    "distinct": {"aggregate": "distinct", "size": "500ms"},
    "top": {"aggregate": "top_k", "size": "500ms", "k": 3},
    "variance": {"aggregate": "variance", "size": "500ms"},
}


def test_no_line_ends_a_process_and_what_is_refused_is_counted(tmp_path: Path) -> None:
    with EdgeTrial(
        tmp_path, children=3, sensors=2, rate=200, keys=3, queries=QUERIES, fed=["s2"]
    ) as trial:
        pipe = trial.feed("s2")
        for line in lines(Random(7), 300):
            pipe.write(line + b"\n")
        pipe.write(b'{"value": 1}\n' * 10)
        pipe.close()
        trial.wait(lambda: trial.report("s2")["ended"])
        trial.fleet.check()
        said = trial.report("s2")
        assert said["taken"] >= 10
        assert said["rejections"]["unreadable line"] > 50
        reasons = [trial.status(name)["refused"].get("s2", {}) for name in ("c1", "c2", "c3")]
        assert sum(each.get("no key", 0) for each in reasons) >= 10
        with suppress(InvalidArgumentError):
            trial.client.ask("root", "dismiss", {"sensor": "s2"})
        trial.wait_for_window(int(time.time() * 1e6) + 1_000_000)
        windows = trial.windows()
        assert sum(each["refused"] for each in windows if each["query"] == "count") >= 50
        keyed = [each for each in windows if each["query"] == "by_key"]
        assert any(not each["complete"] and each["missing"] >= 10 for each in keyed)


def test_a_state_larger_than_a_frame_is_replicated_and_taken_over(tmp_path: Path) -> None:
    """All keys go to one partition, whose owner is killed when the sensor has been told that the
    events are safe: what is in the window then comes from a copy."""
    queries = {"by_key": {"aggregate": "count", "size": "6s", "keyed": True}}
    with EdgeTrial(
        tmp_path,
        children=2,
        sensors=2,
        keys=1,
        rate=10,
        queries=queries,
        fed=["s2"],
        settings={"routing": "primary", "buffer": 100_000},
    ) as trial:
        pipe = trial.feed("s2")
        size = 6_000_000
        start = (int(time.time() * 1e6) // size + 1) * size
        trial.sleep_to(start + 200_000)
        keys = [f"{number:0>250}" for number in range(40_000)]
        for key in keys:
            pipe.write(b'{"value": 1, "key": "%s"}\n' % key.encode())
        pipe.flush()
        trial.wait(lambda: trial.report("s2")["taken"] == len(keys))
        trial.wait(lambda: trial.report("s2")["buffered"] == 0)
        (owner,) = set(trial.report("s2")["owners"].values()) & {
            name for name in trial.layout.children if trial.status(name)["events"] > 10_000
        }
        assert time.time() * 1e6 < start + size, "too slow to be in one window"
        trial.fleet.kill(owner)
        trial.sleep_to(start + size + 100_000)
        pipe.write(b'{"value": 1, "key": "after"}\n')
        pipe.close()
        trial.wait_for_window(start + size)
        window = next(each for each in trial.windows() if each["start"] == start)
        assert window["complete"]
        assert sorted(key for key in window["answer"] if len(key) == 250) == keys
        assert {window["answer"][key] for key in keys} == {1}
        other = next(name for name in trial.layout.children if name != owner)
        assert trial.status(other)["network"].get("oversized", 0) == 0
        # A display need not take all of it.
        said = trial.client.ask("root", "windows", {"first": 0, "keys": 5})
        assert [len(each["answer"]) for each in said["windows"] if each["start"] == start] == [5]
