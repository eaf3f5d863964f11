"""Command line of the simulator: `python -m simulator`, or `make sim`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from holdfast.cli import ExitCode, run_app
from holdfast.errors import InvalidArgumentError
from holdfast.pictures import check_picture
from simulator.campaign.many import run_many
from simulator.campaign.one import run_one
from simulator.campaign.replay import Replay, parse_keep
from simulator.scenario import Options

app = typer.Typer(add_completion=False)


@app.command()
def sim(
    seeds: Annotated[
        int | None, typer.Option(help="How many seeds to run.", show_default="1000")
    ] = None,
    first_seed: Annotated[int, typer.Option(help="The first of them.")] = 0,
    seed: Annotated[
        int | None, typer.Option(help="Run only this one, and tell what happens in it.")
    ] = None,
    topology: Annotated[
        str,
        typer.Option(
            help="any, chain-1, chain-2, chain-3, chain-4, window, join, mixed, diamond or "
            "last-rows."
        ),
    ] = "any",
    policy: Annotated[
        str, typer.Option(help="switch, order, vote, vote-latest, sample, first or latest.")
    ] = "switch",
    faults: Annotated[
        str,
        typer.Option(
            help="all, none, short (than anybody waits), cuts (of links), crashes, frequent, long "
            "(with bounded memory), wipes (of all replicas of a stage), varied (sizes, delays, "
            "clocks), unruly (liars), restarts (with the disk kept), clocks (that are set) or "
            "lasting (10 minutes)."
        ),
    ] = "all",
    keep: Annotated[
        str | None,
        typer.Option(help="With --seed: only these of its faults, by number: 0,3 or none."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="On so many processes.", show_default="the cores there are")
    ] = None,
    shrink: Annotated[
        bool, typer.Option("--shrink", help="Look for a smaller schedule of what failed.")
    ] = False,
    trace: Annotated[
        Path | None, typer.Option(help="With --seed: write every event into this file.")
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(help="Draw the run of --seed, or the first that failed, as .png or .svg."),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Break simulated pipelines in a thousand ways, and check that their results stay right."""
    _check_together(seed is not None, {"--keep": keep, "--trace": trace}, {"--seeds": seeds})
    if picture is not None:
        check_picture(picture)
    console, options = Console(), Options(topology, policy, faults)
    if seed is None:
        numbers = range(first_seed, first_seed + (1000 if seeds is None else seeds))
        right = run_many(
            console, options, numbers, workers=workers, shrinking=shrink, picture=picture
        )
    else:
        replay = Replay(seed, options, None if keep is None else parse_keep(keep))
        right = run_one(console, replay, trace=trace, shrinking=shrink, picture=picture)
    if not right:
        raise typer.Exit(ExitCode.ERROR)


def _check_together(
    one: bool, only_with_one: Mapping[str, object], only_with_many: Mapping[str, object]
) -> None:
    for name, given in (only_with_many if one else only_with_one).items():
        if given is not None:
            remedy = "leave out one of them" if one else "give it too"
            raise InvalidArgumentError(
                f"{name}: does not go {'with' if one else 'without'} --seed; {remedy}"
            )


if __name__ == "__main__":
    run_app(app, "python -m simulator")
