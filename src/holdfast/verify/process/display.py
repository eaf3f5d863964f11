"""Live table of `holdfast verify`: stages of each replica, and agreement.

Cells come from the replicas' traces and are only shown; what is agreed upon say the verifiers.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Literal

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from holdfast.verify.machine import Finding, Kind, Verdict
from holdfast.verify.process.coordinator import Coordinator, Member
from holdfast.verify.process.processes import TRACE
from holdfast.verify.process.report import printable

_TAIL: Final = 2**20
"""Bytes at the end of a trace that are read."""
_WORDS: Final = {
    Kind.OUTVOTED: "outvoted",
    Kind.EQUIVOCATED: "said two things",
    Kind.OVER_QUOTA: "took too much room",
    Kind.BROKEN_DATA: "wrong data",
    Kind.SPOILED_FILE: "spoiled file",
    Kind.MISSING: "missing",
    Kind.MISPLACED: "misplaced",
    Kind.SHARED_HOST: "shared host",
}
_BAD: Final = (Kind.OUTVOTED, Kind.EQUIVOCATED, Kind.BROKEN_DATA, Kind.MISPLACED)


class _Line(msgspec.Struct):
    """Of a trace, as far as it is shown."""

    stage: str
    event: Literal["starts", "made", "dropped", "failed"]


class Board:
    """Shows a job on a terminal as a table, elsewhere as lines. A context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._said: set[str] = set()

    def show(self, coordinator: Coordinator) -> None:
        if self._live is not None:
            self._live.update(_page(coordinator), refresh=True)
            return
        for line in _news(coordinator):
            if line not in self._said:
                self._said.add(line)
                self._console.print(line, soft_wrap=True, highlight=False, markup=False)

    def __enter__(self) -> Board:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()


def stage_table(coordinator: Coordinator) -> Table:
    submission = coordinator.submission
    table = Table(title=submission.name)
    table.add_column("stage")
    table.add_column("agreed")
    for member in coordinator.members.values():
        table.add_column(f"replica {member.number}")
    traces = {
        number: _read_trace(submission.replica_folder(number) / TRACE)
        for number in coordinator.members
    }
    for stage in submission.plan.stages:
        table.add_row(
            stage,
            _agreed(coordinator, stage),
            *(
                _cell(coordinator, stage, member, traces[member.number])
                for member in coordinator.members.values()
            ),
        )
    return table


def _page(coordinator: Coordinator) -> RenderableType:
    folder = coordinator.submission.folder
    return Group(
        stage_table(coordinator),
        Text(f"logs are in {folder}; Ctrl-C gives the job up", style="dim"),
    )


def _agreed(coordinator: Coordinator, stage: str) -> Text:
    if coordinator.standing is None:
        return Text("")
    verdict = coordinator.standing.verdicts[stage]
    told = f"{len(verdict.slices)} of {coordinator.submission.plan.slices}"
    if any(verdict.run):
        told += f", run {verdict.run}"
    return Text(told, style="green" if verdict.is_ok else "")


def _cell(coordinator: Coordinator, stage: str, member: Member, trace: dict[str, str]) -> Text:
    standing = coordinator.standing
    findings = () if standing is None else standing.findings
    for each in findings:
        if each.replica == member.number and each.stage == stage and each.kind in _BAD:
            return Text(_WORDS[each.kind], style="red")
    if standing is not None and _holds_all(standing.verdicts[stage], member.number):
        return Text("agrees", style="green")
    if member.is_lost:
        return Text("lost", style="red")
    doing = trace.get(stage, "")
    return Text({"starts": "computes", "made": "computed"}.get(doing, doing), style="dim")


def _holds_all(verdict: Verdict, replica: int) -> bool:
    return verdict.is_ok and all(
        any(holder.replica == replica for holder in agreed.holders)
        for agreed in verdict.slices.values()
    )


def _read_trace(path: Path) -> dict[str, str]:
    """What was last done with each stage. A replica may have written anything there."""
    found: dict[str, str] = {}
    for line in _tail(path).splitlines():
        try:
            told = msgspec.json.decode(line, type=_Line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            # It is being written, or begins before the tail.
            continue
        found[told.stage] = told.event
    return found


def _tail(path: Path) -> bytes:
    """Nothing if there is none."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            return file.read(_TAIL)
    except OSError:
        return b""


def _open_at_once(path: str, flags: int) -> int:
    """A pipe would have us wait for its writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def _news(coordinator: Coordinator) -> list[str]:
    lines = [f"{coordinator.submission.name}: logs are in {coordinator.submission.folder}"]
    for member in coordinator.members.values():
        for start, pool in enumerate(member.pools, 1):
            again = f", start {start}" if start > 1 else ""
            lines.append(f"replica {member.number}: started in {pool.name}{again}")
    if coordinator.standing is not None:
        for stage, verdict in coordinator.standing.verdicts.items():
            if any(verdict.run):
                lines.append(f"stage {stage}: run {verdict.run}")
            if verdict.is_ok:
                lines.append(f"stage {stage}: agreed upon in run {verdict.run}")
        lines += map(_finding, coordinator.standing.findings)
    return lines


def _finding(finding: Finding) -> str:
    who = f"replica {finding.replica}" if finding.replica else "all"
    where = f", stage {finding.stage}" if finding.stage else ""
    return printable(f"{who}{where}: {finding.kind}: {finding.text}")
