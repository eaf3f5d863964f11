"""What `holdfast verify` does, from the job's file to the account."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Final

from rich.console import Console

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.verification import Quorum
from holdfast.verify.account import Account
from holdfast.verify.admission import Admission
from holdfast.verify.board import Board
from holdfast.verify.config import Config
from holdfast.verify.coordinator import Coordinator
from holdfast.verify.delivery import check_output
from holdfast.verify.errors import JobFailedError
from holdfast.verify.placement import plan_placement
from holdfast.verify.processes import Launcher, ProcessLauncher
from holdfast.verify.submission import Submission, submit

__all__ = ["SLOTS", "verify_job"]

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
    wait: bool = False,
    ending: Event | None = None,
    launch: Callable[[Submission], Launcher] = ProcessLauncher,
) -> Account:
    """Raises JobFailedError, after the account is written, if the result is not verified, or is
    disputed by then."""
    ending = ending or Event()
    check_output(output)
    quorum = Quorum(config.model, config.faults)
    placement = plan_placement(quorum.numbers, config.pools, shared=config.allow_shared_hosts)
    if placement.warning:
        console.print(f"WARNING: {placement.warning}", style="bold yellow", soft_wrap=True)
    submission = submit(file, config)
    slots = Path(config.slots) if config.slots else submission.folder.parent / SLOTS
    with ExitStack() as stack:
        admission = stack.enter_context(
            Admission(slots, submission.name, placement.pools(), config.replica)
        )
        _enter(admission, submission, console, wait=wait, ending=ending)
        submission = submission.at_free_ports()
        board = stack.enter_context(Board(console))
        coordinator = stack.enter_context(
            Coordinator(submission, placement, launch(submission), output, admission=admission)
        )
        account = _run(coordinator, board, ending)
    console.print(account.text(), soft_wrap=True, highlight=False, markup=False, end="")
    if not account.is_verified:
        raise JobFailedError(f"{account.failure}; all that is known is in {account.folder}")
    if account.is_disputed:
        raise JobFailedError(
            f"{account.output}: was delivered, but another replica has a different result; do not "
            "use it, and submit the job again with --model byzantine"
        )
    return account


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
