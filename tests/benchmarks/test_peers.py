from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.peers import PeerError, run_script


def write_script(folder: Path, source: str) -> Path:
    script = folder / "peer.py"
    script.write_text(source)
    return script


def test_a_script_answers_in_json(tmp_path: Path) -> None:
    script = write_script(tmp_path, "import json, sys; print(json.dumps({'got': sys.argv[1:]}))")
    assert run_script(Path(sys.executable), script, "a", "b") == {"got": ["a", "b"]}


def test_a_failing_script_shows_its_error(tmp_path: Path) -> None:
    script = write_script(tmp_path, "raise SystemExit('no such dataset')")
    with pytest.raises(PeerError, match=r"peer\.py exited with 1:\nno such dataset"):
        run_script(Path(sys.executable), script)


def test_anything_but_json_is_refused(tmp_path: Path) -> None:
    script = write_script(tmp_path, "print('42 and more')")
    with pytest.raises(PeerError, match="printed no JSON"):
        run_script(Path(sys.executable), script)
