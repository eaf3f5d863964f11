"""`holdfast console FILE` and `holdfast run FILE --console PORT`."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx2
import pytest
from rich.console import Console
from typer.testing import CliRunner

from holdfast.cli import app
from holdfast.console.command import Wish, run_with_console, show_console
from holdfast.errors import InvalidArgumentError
from tests.console.fake_fleet import FakeFleet, fleet_topology
from tests.pipeline.sources.processes import save
from tests.pipeline.sources.rig import alone
from tests.transport.parties import no_threads_left, wait_for


@contextmanager
def page_of(run: Callable[..., None], *arguments: Any, **settings: Any) -> Iterator[str]:
    """What is printed as the address of the page."""
    said, ending = io.StringIO(), Event()
    file, *rest = arguments
    screen = Console(file=said, width=200)
    thread = Thread(target=run, args=(file, screen, *rest), kwargs={**settings, "ending": ending})
    thread.start()
    try:
        wait_for(lambda: "console: " in said.getvalue())
        found = re.search(r"console: (\S+)", said.getvalue())
        assert found is not None
        yield found[1]
    finally:
        ending.set()
        thread.join()


def state(url: str, party: str) -> dict[str, Any]:
    found = httpx2.get(f"{url}api/view").json()["parties"]
    return dict(found.get(party, {}))


def test_the_page_of_a_fleet_that_runs_elsewhere(tmp_path: Path) -> None:
    with no_threads_left(), FakeFleet(fleet_topology(tmp_path)) as fleet:
        file = save(fleet.topology)
        wish = Wish(0, watch=[])
        with page_of(show_console, file, wish, routes={}) as url:
            assert "#" not in url, "on loopback the token is for nothing"
            wait_for(lambda: state(url, "sums/1").get("state") == "STABLE")
            assert not httpx2.get(f"{url}api/outline").json()["demo"]


def test_the_page_of_a_fleet_that_is_run_here_and_broken(tmp_path: Path) -> None:
    file = save(alone(tmp_path))
    with (
        no_threads_left(),
        page_of(
            run_with_console, file, Wish(0), demo=True, only=[], options=[], metrics=None
        ) as address,
    ):
        url, _, token = address.partition("#token=")
        wait_for(lambda: state(url, "readings").get("state") == "STABLE")
        wait_for(lambda: state(url, "keeper").get("state") == "READING")

        def order(**body: str) -> None:
            headers = {"authorization": f"Bearer {token}"}
            answer = httpx2.post(f"{url}api/act", json=body, headers=headers)
            assert answer.status_code == 200, answer.text

        order(do="freeze", party="readings")
        assert state(url, "readings")["state"] == "FROZEN"
        order(do="thaw", party="readings")
        wait_for(lambda: state(url, "readings")["state"] == "STABLE")
        order(do="cut", party="keeper", to="readings")
        assert state(url, "keeper")["cuts"] == ["readings"]
        wait_for(lambda: state(url, "keeper")["state"] == "UNKNOWN")
        order(do="heal", party="keeper", to="readings")
        wait_for(lambda: state(url, "keeper")["state"] == "READING")
        order(do="kill", party="readings")
        wait_for(lambda: state(url, "readings").get("starts") == 2)
        wait_for(lambda: state(url, "readings")["state"] == "STABLE")
        # Whoever is frozen when all ends, ends too.
        order(do="freeze", party="readings")


def test_demo_is_for_the_page() -> None:
    answer = CliRunner().invoke(app, ["run", "fleet.toml", "--demo"])
    assert isinstance(answer.exception, InvalidArgumentError)
    assert "--console" in str(answer.exception)


@pytest.mark.parametrize("command", ["console", "run"])
def test_help_names_the_options(command: str) -> None:
    answer = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"})
    assert answer.exit_code == 0
    assert ("--watch" if command == "console" else "--demo") in answer.output
