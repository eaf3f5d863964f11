"""Ports are given once, also between processes that run at the same time."""

from __future__ import annotations

import subprocess
import sys

from harness.ports import free_port

ASK = "from harness import ports; print(ports._reserve({0}), ports._reserve({0}))"


def asked_elsewhere(port: int) -> str:
    command = [sys.executable, "-c", ASK.format(port)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_no_port_is_given_twice_in_a_process() -> None:
    assert len({free_port() for _ in range(50)}) == 50


def test_no_port_is_given_to_two_processes() -> None:
    assert asked_elsewhere(free_port()) == "False False"


def test_what_a_process_held_is_free_when_it_has_ended() -> None:
    never_given = 1
    assert asked_elsewhere(never_given) == asked_elsewhere(never_given) == "True False"
