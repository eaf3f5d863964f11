"""The command `holdfast verify`, from the job's file to its report."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Final

from rich.console import Console

from holdfast.errors import InvalidArgumentError, JobFailedError, StoreUnavailableError
from holdfast.verify.machine import Quorum
from holdfast.verify.process.admission import Admission
from holdfast.verify.process.config import Config
from holdfast.verify.process.coordinator import PATIENCE, Coordinator, delivered
from holdfast.verify.process.delivery import check_output, part_of
from holdfast.verify.process.display import Board
from holdfast.verify.process.placement import plan_placement
from holdfast.verify.process.processes import Launcher, ProcessLauncher, end_leftovers
from holdfast.verify.process.progress import Log, Progress, Submitted
from holdfast.verify.process.report import Account
from holdfast.verify.process.resuming import Mark, find_unfinished
from holdfast.verify.process.submission import Submission, submit, work_of

SLOTS: Final = "slots"
"""Beside the folders of submissions, unless the config says otherwise: who has which room."""
EVERY: Final = 0.5
"""Seconds between two looks whether there is room."""


def verify_job(
    file: Path,
    config: Config,
    output: Path,
    console: Console,
    *,
    arguments: Sequence[str] = (),
    wait: bool = False,
    fresh: bool = False,
    ending: Event | None = None,
    stopping: Event | None = None,
    launch: Callable[[Submission], Launcher] = ProcessLauncher,
) -> Account:
    """Goes on with a submission of this job to this output that was interrupted, if there is one;
    `fresh` begins anew. When `ending` is set, the job is given up; if `stopping` is set before, the
    same call goes on with it. `arguments`: of the job's code.

    Raises JobFailedError, after the account is written, if the result is not verified, or is
    disputed by then, or if the code was to write more."""
    ending = ending or Event()
    quorum = Quorum(config.model, config.faults)
    placement = plan_placement(
        quorum.numbers,
        config.pools,
        shared=config.allow_shared_hosts,
        masters=config.exchangeable,
    )
    if placement.warning:
        console.print(f"WARNING: {placement.warning}", style="bold yellow", soft_wrap=True)
    work = work_of(config)
    with ExitStack() as stack:
        found = _unfinished(work, file, output, stack, fresh=fresh)
        if found is None or delivered(found.progress, output) is None:
            check_output(output)
        submission = submit(
            file, config, found.progress.submitted if found else None, arguments=arguments
        )
        if shared := submission.sharing(placement):
            console.print(f"WARNING: {shared}", style="bold yellow", soft_wrap=True)
        if found is not None:
            console.print(_told(found.progress), soft_wrap=True, markup=False)
            end_leftovers(submission.name, PATIENCE)
        log = found or stack.enter_context(Log(submission.folder))
        slots = Path(config.slots) if config.slots else work / SLOTS
        admission = stack.enter_context(
            Admission(slots, submission.name, placement.pools(), config.replica)
        )
        _enter(admission, submission, console, wait=wait, ending=ending)
        submission = submission.at_free_ports()
        board = stack.enter_context(Board(console))
        mark = Mark(submission.folder)
        if found is None:
            of = (submission.name, submission.submitted, submission.pins, submission.quota)
            log.note(Submitted(*of))
            mark.set(file, output)
        launcher = launch(submission)
        coordinator = stack.enter_context(
            Coordinator(submission, placement, launcher, output, admission=admission, log=log)
        )
        try:
            account = _run(coordinator, board, ending)
        except Exception:
            if not log.progress.agreed:
                mark.remove()
            raise
        is_given_up = ending.is_set() and not (stopping is not None and stopping.is_set())
        goes_on = bool(log.progress.agreed) and not (coordinator.is_over or is_given_up)
        if not goes_on:
            mark.remove()
    console.print(account.text(), soft_wrap=True, highlight=False, markup=False, end="")
    if not account.is_verified:
        more = "; the same command goes on from what is agreed upon" if goes_on else ""
        raise JobFailedError(f"{account.failure}; all that is known is in {account.folder}{more}")
    if account.refused:
        raise JobFailedError(f"{account.output}: was delivered, but {account.refused}")
    if account.is_disputed:
        raise JobFailedError(
            f"{account.output}: was delivered, but another replica has a different result; do not "
            "use it, and submit the job again with --model byzantine"
        )
    return account


def _unfinished(
    work: Path, file: Path, output: Path, stack: ExitStack, *, fresh: bool
) -> Log | None:
    """The journal of the submission to go on with, which nobody else has; None if there is none."""
    for folder in find_unfinished(work, file, output):
        try:
            log = Log(folder)
        except StoreUnavailableError as error:
            raise InvalidArgumentError(
                f"{folder.name}: this job runs already, with the same --output ({error}); wait for "
                "its end, or name another --output"
            ) from error
        if log.progress.submitted is not None and not fresh:
            return stack.enter_context(log)
        # Nobody goes on with it any more.
        with log:
            end_leftovers(folder.name, PATIENCE)
            shutil.rmtree(part_of(output, folder.name), ignore_errors=True)
            Mark(folder).remove()
    return None


def _told(progress: Progress) -> str:
    assert progress.submitted is not None
    agreed = ", ".join(progress.agreed) or "none"
    return (
        f"{progress.submitted.name} was interrupted and goes on; stages agreed upon by then: "
        f"{agreed} (--fresh begins anew)"
    )


def _run(coordinator: Coordinator, board: Board, ending: Event) -> Account:
    """Until the end, whatever that is: its account is written before anything else can go wrong."""
    try:
        account = coordinator.run(board.show, ending)
    except BaseException as error:
        coordinator.account(f"{type(error).__name__}: {error}").write()
        raise
    account.write()
    return account


def _enter(
    admission: Admission, submission: Submission, console: Console, *, wait: bool, ending: Event
) -> None:
    said = ""
    while reason := admission.enter():
        if not wait or ending.is_set():
            raise InvalidArgumentError(
                f"admission: {reason}; submit the job later, or give --wait to have it wait"
            )
        if reason != said:
            said = reason
            at = time.strftime("%H:%M:%S")
            console.print(f"{at} {submission.name} waits: {reason}", soft_wrap=True, markup=False)
        ending.wait(EVERY)
