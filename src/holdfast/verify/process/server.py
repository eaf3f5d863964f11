"""A verifier as a process: `python -m holdfast.verify.process.server CHARTER FOLDER`.

It answers over Flight what replicas, coordinator and other verifiers call: `tell`, `consult`,
`chunk`, `raw-chunk`, `told` and `status`. Whatever is refused is counted and has changed nothing.
Killed and started again with the same folder, it goes on where it was, at the same port.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hmac import compare_digest
from itertools import accumulate, islice
from pathlib import Path
from threading import Condition, Event, Thread
from typing import Self

import pyarrow as pa

from holdfast.errors import HoldfastError, InvalidArgumentError
from holdfast.storage.signing import is_signed
from holdfast.transport.addresses import Address
from holdfast.transport.client import LogClient
from holdfast.transport.links import Message, Outbox
from holdfast.transport.security import Security
from holdfast.transport.server import LogServer
from holdfast.verify.process.job_spec import Charter, VerifierOrders
from holdfast.verify.process.messages import (
    MAX_CALL,
    MAX_ENVELOPES,
    Answer,
    Asked,
    Envelope,
    Envelopes,
    decode,
    encode,
    waiting_words,
)
from holdfast.verify.process.verifier_state import ForgedError, Register

ADDRESS = "address"
"""The file in the folder that says where it listens."""
PULL = 1.0
"""Seconds between two questions to another verifier for what it was told."""
TIMEOUT = 5.0
ALLOWANCE = MAX_CALL + (1 << 20)
"""Bytes that a caller with the token may send until its next call begins: one call, and what HTTP/2
adds to it. A replica has the token, and may lie."""
MAX_TOLD = MAX_CALL // 2
"""Bytes of what was told that are handed to another verifier at once."""
MAX_WAITING = 4
"""So many calls of one caller may wait for news, and of all together who do not show who they are;
each keeps a thread. The others are answered at once."""
LOOK = 1.0
"""Seconds between two looks whether the one who started it is still there."""

ABANDONED = 600.0
"""Seconds without a call of a replica or the coordinator after which a verifier ends that was
launched on another host: the connection by which it should hear of their end may be cut."""

logger = logging.getLogger("holdfast")


@dataclass(slots=True)
class _Call:
    """What one call tells, and what it is answered."""

    envelopes: tuple[Envelope, ...]
    answers: list[str] = field(default_factory=list)
    error: Exception | None = None
    is_over: bool = False


class VerifierServer:
    """Serves until it is closed. A context manager."""

    def __init__(
        self,
        charter: Charter,
        folder: Path,
        address: tuple[str, int] | str = ("127.0.0.1", 0),
        security: Security | None = None,
        peers: Sequence[str] = (),
    ) -> None:
        """`peers`: the job's other verifiers. What they were told is asked for, so that one that
        was down, or was told something else, hears of everything."""
        self._folder = folder
        self._security = security
        self._register = Register(charter, folder)
        self._change = Condition()
        self._calls: deque[_Call] = deque()
        """What was told and is not taken in yet."""
        self._waiting: Counter[int | None] = Counter()
        """Calls, by who makes them."""
        self._called = time.monotonic()
        self._closing = Event()
        try:
            wanted = self._remembered(Address.of(address))
            self._server = LogServer(
                wanted, security, _Service(self), max_message=MAX_CALL, allowance=ALLOWANCE
            )
        except BaseException:
            self._register.close()
            raise
        self.address = self._server.address
        self._remember()
        self._threads = [
            Thread(target=self._keep_time, name="holdfast verifier clock", daemon=True),
            *(
                Thread(target=self._pull, args=(peer,), name=f"holdfast from {peer}", daemon=True)
                for peer in peers
            ),
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._closing.set()
        with self._change:
            self._change.notify_all()
        self._server.close()
        for thread in self._threads:
            thread.join()
        self._register.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def note_call(self) -> None:
        self._called = time.monotonic()

    @property
    def idle(self) -> float:
        """Seconds since a replica or the coordinator has called."""
        return time.monotonic() - self._called

    def tell(self, body: bytes) -> bytes:
        call = _Call(decode(body, Envelopes))
        self._calls.append(call)
        with self._change:
            if not call.is_over:
                self._take_in()
        if call.error is not None:
            raise call.error
        return encode(call.answers)

    def consult(self, body: bytes) -> bytes:
        asked = decode(body, Asked)

        def is_new() -> bool:
            register = self._register
            is_known = register.turned <= asked.version <= register.version
            return not is_known or self._closing.is_set()

        caller = self._caller_of(asked) if asked.patience else None
        with self._change:
            if asked.patience and self._waiting[caller] < MAX_WAITING:
                self._waiting[caller] += 1
                try:
                    self._change.wait_for(is_new, asked.patience)
                finally:
                    self._waiting[caller] -= 1
            version = self._register.version
            standing = None if asked.version == version else self._register.standing()
        return encode(Answer(version, standing))

    def _caller_of(self, asked: Asked) -> int | None:
        """The caller, if it has shown who it is."""
        charter = self._register.charter
        key = None if asked.caller is None else charter.keys.get(asked.caller)
        if key is None or not is_signed(key, waiting_words(charter.job), asked.proof):
            return None
        return asked.caller

    def chunk(self, body: bytes) -> bytes:
        stage, number, seq = decode(body, tuple[str, int, int])
        with self._change:
            return encode(self._register.chunk(stage, number, seq))

    def raw_chunk(self, body: bytes) -> bytes:
        stage, number, seq = decode(body, tuple[str, int, int])
        with self._change:
            return encode(self._register.raw_chunk(stage, number, seq))

    def told(self, body: bytes) -> bytes:
        """For other verifiers: what this one was told, after the first so many; not more than one
        call may hold. A replica that had it could repeat the votes of others as its own."""
        key, first = decode(body, tuple[bytes, int])
        if not compare_digest(key, self._register.charter.peer_key):
            raise ForgedError("told: another verifier may ask for that, with the key of verifiers")
        if first < 0:
            raise InvalidArgumentError("told: give 0 or more")
        with self._change:
            told = self._register.told[first : first + MAX_ENVELOPES]
        sizes = accumulate(len(envelope.body) for envelope in told)
        return encode([each for each, size in zip(told, sizes, strict=True) if size <= MAX_TOLD])

    def status(self) -> bytes:
        """For people, as JSON."""
        with self._change:
            standing = self._register.standing()
            counts = dict(self._register.counts)
            refused = self._register.refused + self._server.refused
            started = self._register.started
        return json.dumps(
            {
                "job": self._register.charter.job,
                "state": standing.state,
                "failure": standing.failure,
                "started": started,
                "stages": {
                    name: {"state": verdict.state, "run": str(verdict.run)}
                    for name, verdict in standing.verdicts.items()
                },
                "findings": [asdict(finding) for finding in standing.findings],
                "counts": counts,
                "refused": refused,
            }
        ).encode()

    def _take_in(self) -> None:
        """All that was told while another wrote to the disk, and write it at once."""
        calls = [self._calls.popleft() for _ in range(len(self._calls))]
        try:
            answers = iter(self._register.tell([each for call in calls for each in call.envelopes]))
            for call in calls:
                call.answers = list(islice(answers, len(call.envelopes)))
        except Exception as error:
            # Whatever it is: nobody who waits may think that it was taken in.
            for call in calls:
                call.error = error
        finally:
            for call in calls:
                call.is_over = True
        self._change.notify_all()

    def _keep_time(self) -> None:
        """Decide what is due although nothing comes in."""
        with self._change:
            while not self._closing.is_set():
                due = self._register.next_wake
                pause = None if due is None else due - self._register.now
                if pause is not None and pause <= 0:
                    self._wake()
                else:
                    self._change.wait(pause)

    def _wake(self) -> None:
        try:
            self._register.wake()
        except Exception as error:
            # Whatever it is: time goes on, and it is tried again.
            logger.error("%s", error)
            self._change.wait(PULL)

    def _pull(self, peer: str) -> None:
        """Ask another verifier again and again for what it was told."""
        first = 0
        while not self._closing.wait(PULL):
            asked = encode((self._register.charter.peer_key, first))
            try:
                with LogClient(peer, self._security, timeout=TIMEOUT) as client:
                    envelopes = decode(client.act("told", asked), Envelopes)
                with self._change:
                    self._register.tell(envelopes)
                    self._change.notify_all()
                first += len(envelopes)
            except Exception as error:
                logger.debug("%s: %s", peer, error)

    def _remembered(self, address: Address) -> Address:
        """Port 0 stands for any; once taken it is kept."""
        path = self._folder / ADDRESS
        if address.port or not path.exists():
            return address
        return Address.of(path.read_text())

    def _remember(self) -> None:
        path = self._folder / ADDRESS
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_text(str(self.address))
        unfinished.rename(path)


class _Service:
    """What Flight's calls come to; verifiers have no links and no rows."""

    def __init__(self, server: VerifierServer) -> None:
        self._server = server

    def act(self, name: str, body: bytes) -> bytes:
        if name != "told":
            # Other verifiers ask for that, for ever.
            self._server.note_call()
        match name:
            case "tell":
                return self._server.tell(body)
            case "consult":
                return self._server.consult(body)
            case "chunk":
                return self._server.chunk(body)
            case "raw-chunk":
                return self._server.raw_chunk(body)
            case "told":
                return self._server.told(body)
            case "status":
                return self._server.status()
        raise InvalidArgumentError(
            "action: a verifier knows tell, consult, chunk, raw-chunk, told and status; call one "
            "of these"
        )

    def opened(self, party: str, outbox: Outbox) -> None:
        outbox.close()

    def received(self, party: str, message: Message) -> None:
        raise InvalidArgumentError("link: a verifier takes none; call its actions")

    def closed(self, party: str, outbox: Outbox) -> None:
        pass

    def read(self, ticket: bytes) -> pa.Table | pa.RecordBatchReader:
        raise InvalidArgumentError("ticket: a verifier has no rows; read them from the storage")

    def push(self, stream: str, batch: pa.RecordBatch) -> bytes:
        raise InvalidArgumentError("push: a verifier takes no rows; write them to the storage")

    def streams(self) -> Mapping[str, pa.Schema]:
        return {}


def _end_with_input(ending: Event) -> None:
    while os.read(sys.stdin.fileno(), 1 << 16):
        pass
    ending.set()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("holdfast.verify.process.server", description=__doc__)
    parser.add_argument(
        "charter",
        type=Path,
        help="the charter of the job; with - its orders come by standard input, with which it ends",
    )
    parser.add_argument("folder", type=Path, help="where it keeps its journal")
    parser.add_argument("--address", default="127.0.0.1:0", help="host:port; port 0 is any")
    parser.add_argument("--peer", action="append", default=[], help="another verifier, host:port")
    parser.add_argument(
        "--attended", action="store_true", help="end with the process that has started it"
    )
    parser.add_argument("--token-file", type=Path, help="the file with the token")
    parser.add_argument("--token-env", help="the variable of the environment with the token")
    parser.add_argument("--certificate", type=Path)
    parser.add_argument("--key", type=Path)
    parser.add_argument("--authority", type=Path)
    parser.add_argument(
        "--mutual", action="store_true", help="demand a certificate of the authority of callers"
    )
    given = parser.parse_args(arguments)
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    ending = Event()
    parent = os.getppid()
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: ending.set())
    try:
        security = Security.read(
            token_file=given.token_file,
            token_env=given.token_env,
            certificate=given.certificate,
            key=given.key,
            authority=given.authority,
            mutual=given.mutual,
        )
        is_launched = given.charter == Path("-")
        if is_launched:
            orders = VerifierOrders.decode(sys.stdin.buffer.readline())
            charter = orders.charter
            security = replace(security, token=orders.token)
            Thread(target=_end_with_input, args=(ending,), daemon=True).start()
        else:
            charter = Charter.read(given.charter)
        with VerifierServer(charter, given.folder, given.address, security, given.peer) as server:
            logger.info("verifier of %s: listens on %s", charter.job, server.address)
            while not ending.wait(LOOK):
                if given.attended and os.getppid() != parent:
                    break
                if is_launched and server.idle > ABANDONED:
                    logger.error("nobody has asked for %g seconds: it ends", ABANDONED)
                    break
    except HoldfastError as error:
        parser.exit(1, f"{error}\n")


if __name__ == "__main__":
    main()
