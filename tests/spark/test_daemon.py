"""Workers have from their daemon what they would import."""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from pathlib import Path

import pytest

import holdfast.spark.daemon
import holdfast.verify.process.daemon
from holdfast.spark.daemon import serve


def test_workers_have_what_is_preloaded_from_their_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "holdfast_preloaded.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(gc, "freeze", lambda: None)
    there = []
    monkeypatch.setattr("pyspark.daemon.manager", lambda: there.extend(sys.modules))
    serve(["holdfast_is_not_there", "holdfast_preloaded"])
    assert "holdfast_preloaded" in there


@pytest.mark.parametrize("daemon", [holdfast.spark.daemon, holdfast.verify.process.daemon])
def test_what_is_preloaded_is_there(daemon) -> None:
    # The daemon itself goes on without what is not.
    assert [import_module(name).__name__ for name in daemon._PRELOAD] == list(daemon._PRELOAD)
