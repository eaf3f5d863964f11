"""A scenario in words: the pipeline, how it is run, and what will go wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from holdfast.pipeline.machine.commands import Settings
from simulator.campaign.display import say
from simulator.diagram import StagePlan
from simulator.faults import Fault, FaultKind
from simulator.scenario import Scenario


def print_scenario(console: Console, scenario: Scenario, numbers: Sequence[int]) -> None:
    """All that a person needs to follow a run; `numbers` are those of the faults."""
    options = scenario.options
    say(
        console,
        f"seed {scenario.seed}: policy {options.policy}, topology {options.topology}, "
        f"faults {options.faults}",
        style="bold",
    )
    _print_stages(console, scenario)
    settings = next(iter(scenario.settings.values()))
    for line in (*_settings(settings), *_circumstances(scenario)):
        say(console, f"  {line}")
    if scenario.faults:
        print_faults(console, scenario.faults, numbers)
    else:
        say(console, "no faults")


def print_faults(console: Console, faults: Sequence[Fault], numbers: Sequence[int]) -> None:
    """The faults with the numbers that `--keep` takes."""
    say(console, "faults, with their numbers for --keep")
    table = Table()
    for name in ("", "from", "to", "what", "who"):
        table.add_column(name, justify="right" if name in ("", "from", "to") else "left")
    for number, fault in zip(numbers, faults, strict=True):
        table.add_row(
            str(number),
            f"{fault.start / 1e6:.3f} s",
            f"{fault.end / 1e6:.3f} s",
            fault.kind.value + _amount(fault),
            ", ".join(fault.targets),
        )
    console.print(table, highlight=False)


def _amount(fault: Fault) -> str:
    match fault.kind:
        case FaultKind.NOISE:
            return f", {100 * fault.amount:g} % lost"
        case FaultKind.SLOW:
            return f", {_seconds(fault.amount)} to {_seconds(2 * fault.amount)} late"
        case FaultKind.FLAP:
            return f", every {_seconds(fault.amount)}"
        case _:
            return ""


def _print_stages(console: Console, scenario: Scenario) -> None:
    table = Table()
    for name in ("stage", "reads", "does", "publishes", "replicas"):
        table.add_column(name)
    for plan in scenario.plans:
        outputs = [output.stream for output in plan.outputs]
        read = ", ".join(
            f"{stream} (to a client)" if stream in scenario.diagram.outputs else stream
            for stream in outputs
        )
        replicas = ", ".join(scenario.replicas[plan.name])
        table.add_row(plan.name, ", ".join(plan.inputs), _steps(plan), read, replicas)
    console.print(table, highlight=False)


def _steps(plan: StagePlan) -> str:
    return ", ".join(type(step.operator).__name__.lower() for step in plan.steps)


def _settings(settings: Settings) -> Iterator[str]:
    delays = settings.delays
    if delays.max_delay == math.inf:
        yield "max_delay: infinite, so nothing tentative is ever shown"
    else:
        yield (
            f"max_delay: {_seconds(delays.max_delay)}; new rows while input is missing: "
            f"{delays.failing.value}, while corrections are made: {delays.correcting.value}"
        )
        how = "beside the fork" if settings.beside else "one replica after the other"
        yield f"corrections are made {how}"
    if settings.long_failure < math.inf:
        yield (
            f"after failing for {_seconds(settings.long_failure)} a replica is first read "
            "in the background"
        )


def _circumstances(scenario: Scenario) -> Iterator[str]:
    yield (
        f"{len(scenario.readings):,} readings of {', '.join(scenario.diagram.sources)}; "
        f"buckets of {_seconds(scenario.size)}; "
        f"stages are saved every {_count(scenario.save_every, 'bucket')}"
    )
    for source in scenario.twins:
        yield f"{source} has a hot standby: {' and '.join(scenario.makers[source])} publish it"
    ahead = max(scenario.ahead, key=lambda name: scenario.ahead[name])
    yield f"clocks differ by up to {_seconds(scenario.ahead[ahead])} ({ahead} is ahead)"
    for plan in scenario.plans:
        settings = scenario.settings[plan.name]
        if settings.retain < math.inf:
            beyond = "older ones are given up" if settings.may_skip else "then the sources wait"
            yield f"{plan.name} keeps input of {_seconds(settings.retain)}; {beyond}"
    for name, lie in scenario.liars.items():
        yield f"{name} lies in {100 * lie.share:g} % of its buckets ({lie.kind})"


def _count(number: int, noun: str) -> str:
    return noun if number == 1 else f"{number} {noun}s"


def _seconds(duration: float) -> str:
    return f"{duration / 1e6:g} s"
