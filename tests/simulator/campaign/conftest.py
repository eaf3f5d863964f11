"""A simulator that finds what it is told to find."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from simulator import trial
from simulator.scenario import Scenario


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=100)


@pytest.fixture
def printed(console: Console) -> Callable[[], str]:
    def printed() -> str:
        assert isinstance(console.file, io.StringIO)
        return console.file.getvalue()

    return printed


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Scenario], bool]], None]:
    """Let the scenarios that are said to fail do so, and all others be right."""

    def failing(fails: Callable[[Scenario], bool]) -> None:
        def check(run: object) -> list[str]:
            return ["all is lost"] * 6 if fails(run.scenario) else []  # type: ignore[attr-defined]

        monkeypatch.setattr(trial, "check", check)

    return failing
