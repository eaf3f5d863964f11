"""Ports are given once, also between processes that run at the same time."""

from __future__ import annotations

import os
import subprocess
import sys

from harness.ports import free_port

ASK = "from harness.ports import free_port; print(*(free_port() for _ in range(400)))"
HOLD = """from harness.ports import _hold
held = _hold(range(1, 3))
print(held is not None, _hold(range(1, 3)) is not None)"""


def said(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_no_port_is_given_twice_in_a_process() -> None:
    assert len({free_port() for _ in range(50)}) == 50


def test_no_port_is_given_to_two_processes() -> None:
    ours = {free_port() for _ in range(400)}
    assert ours.isdisjoint(map(int, said(ASK).split()))


def test_what_a_process_held_is_free_when_it_has_ended() -> None:
    assert [said(HOLD) for _ in range(2)] == ["True False"] * 2


def test_however_many_are_given_no_more_files_are_open() -> None:
    free_port()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(1000):
        free_port()
    assert len(os.listdir("/proc/self/fd")) == before
