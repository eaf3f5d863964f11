"""The command `holdfast participant FILE`: a load manager and its stages, until asked to end."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from threading import Event

from holdfast.errors import HoldfastError
from holdfast.federation.process.participant import LoadManager
from holdfast.federation.process.settings import Participant
from holdfast.federation.process.stages import StageTasks
from holdfast.pipeline.process.process import PartyEndedError
from holdfast.pipeline.process.replica_config import read_security

LOOK = 0.2

logger = logging.getLogger("holdfast")


def run_participant(file: Path, *, master: str, ending: Event) -> None:
    """Returns when `ending` is set; raises if it cannot go on. Partners and contracts are those of
    the file as it is then: it may be changed while it runs."""
    participant = Participant.read(file)
    read_at = _changed_at(file)
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    security = read_security(participant.security, participant.home)
    tasks = StageTasks(participant, master=master)
    try:
        manager = LoadManager(participant, tasks, security=security)
    except BaseException:
        tasks.close()
        raise
    with manager:
        logger.info("%s: started", participant.name)
        while not ending.wait(LOOK):
            if manager.failure is not None:
                raise PartyEndedError(f"{participant.name}: {manager.failure}")
            changed_at = _changed_at(file)
            if changed_at != read_at:
                read_at = changed_at
                _renegotiate(manager, file)
        logger.info("%s: ends", participant.name)


def _changed_at(file: Path) -> int:
    """0 while it is not there: an editor may be about to write it."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


def _renegotiate(manager: LoadManager, file: Path) -> None:
    try:
        manager.renegotiate(Participant.read(file))
    except HoldfastError as error:
        logger.error("%s; it goes on as before", error)
