"""What `holdfast participant FILE` does: a load manager and its stages, until it is to end."""

from __future__ import annotations

import logging
import sys
from threading import Event

from holdfast.federation.participant import LoadManager
from holdfast.federation.settings import Participant
from holdfast.federation.stages import StageTasks
from holdfast.parties.process import PartyEndedError
from holdfast.wire import Security

__all__ = ["run_participant"]

LOOK = 0.2

logger = logging.getLogger("holdfast")


def run_participant(participant: Participant, *, master: str, ending: Event) -> None:
    """Returns when `ending` is set; raises if it cannot go on."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    security = _read_security(participant)
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
        logger.info("%s: ends", participant.name)


def _read_security(participant: Participant) -> Security | None:
    given = participant.security
    if given is None:
        return None

    def beside(name: str | None) -> str | None:
        return None if name is None else str(participant.path(name))

    return Security.read(
        token_file=beside(given.token_file),
        token_env=given.token_env,
        certificate=beside(given.certificate),
        key=beside(given.key),
        authority=beside(given.authority),
    )
