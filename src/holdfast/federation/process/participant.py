"""A load manager as a process: journal, partners over Flight, tasks.

One thread runs the state machine. Another for each partner carries what is said there, so that one
who does not answer keeps nobody waiting. Killed and started again with the same folder, it goes on
where it was.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Event as Flag
from threading import Lock, Thread
from typing import Any, Self, TypeVar

import pyarrow as pa

from holdfast.errors import HoldfastError, InvalidArgumentError, StoreUnavailableError, WireError
from holdfast.federation.machine import (
    Books,
    Command,
    Fence,
    Halt,
    Keep,
    Ledger,
    Letter,
    Load,
    LoanId,
    Manager,
    Persist,
    Prepare,
    Resume,
    Send,
    Smoothed,
    Start,
    Stop,
    Task,
    total,
)
from holdfast.federation.machine.messages import NONE, Answer, Mark
from holdfast.federation.process.envelopes import (
    MAX_ENVELOPE,
    Opened,
    open_any,
    open_letter,
    seal,
    terms_of,
)
from holdfast.federation.process.records import (
    LEDGER,
    STANDING,
    Kept,
    open_journal,
    open_letters,
    pack,
    unpack,
    write_ledger,
    write_standing,
)
from holdfast.federation.process.settings import Participant
from holdfast.federation.process.stages import Event, Tasks
from holdfast.runtime.clock import Clock
from holdfast.storage.atomic_file import write_whole
from holdfast.storage.journal import Journal
from holdfast.storage.signing import KEY_SIZE, Signer
from holdfast.transport.client import LogClient
from holdfast.transport.links import Message as LinkMessage
from holdfast.transport.links import Outbox
from holdfast.transport.security import Security
from holdfast.transport.server import LogServer

LETTERS = "letters"
"""In the folder of a participant: what binds it and its partners, as it was signed."""
STATUS = "status.json"
"""In the folder of a participant: how it is, for whoever runs it and for nobody else."""

MEASURE = 1.0
"""Seconds between two looks at what tasks take."""
TIMEOUT = 5.0
WAITING = 1_000
"""Messages to a partner that wait; what is more is lost, and said again if it matters."""
MOST_LETTERS = 200
"""Letters of one partner that wait to be heard; what is more is refused, and said again if it
matters: nobody fills the memory of another, or keeps it from hearing the others for long."""
PUBLISH = 0.2
"""Seconds between two writings of the ledger and the status at least; ten times as long as one
takes, if that is more."""
NEGOTIABLE = frozenset({"partners", "buys", "sells"})
"""What may change while it runs."""
MOST_RECORDS = 1_000
"""In a journal, beyond what the ledger makes necessary; then one stands for all of them."""

logger = logging.getLogger("holdfast")

E = TypeVar("E")


def read_signer(path: Path) -> Signer:
    """The secret key of a file, which nobody else may read."""
    try:
        is_open = path.stat().st_mode & 0o077
        text = path.read_bytes()
    except OSError as error:
        raise InvalidArgumentError(
            f"{path}: {error.strerror}; make one with `holdfast contracts key {path}`"
        ) from error
    if is_open:
        raise InvalidArgumentError(f"{path}: others may read it; run chmod 600 on it")
    try:
        secret = bytes.fromhex(text.decode("ascii").strip())
    except ValueError:
        secret = b""
    if len(secret) != KEY_SIZE:
        raise InvalidArgumentError(f"{path}: is no key; make one with `holdfast contracts key`")
    return Signer(secret)


class LoadManager:
    """Runs until it is closed. A context manager."""

    def __init__(
        self,
        participant: Participant,
        tasks: Tasks,
        *,
        security: Security | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.participant = participant
        self._tasks = tasks
        self._signer = read_signer(participant.path(participant.key))
        self._security = security
        self._keys = {
            name: bytes.fromhex(each.public) for name, each in participant.partners.items()
        }
        self.counts: Counter[str] = Counter()
        self.failure: str | None = None
        self._events: Queue[Event | None] = Queue()
        self._waiting: Counter[str] = Counter()
        """Letters by sender that are not heard yet."""
        self._lock = Lock()
        self._closing = Flag()
        self._clock = clock or Clock()
        self._origin = 0
        self._smoothed: dict[str, Smoothed] = {}
        self._has_news = True
        self._publishable = 0.0
        self._folder = participant.path(participant.folder)
        self._journal = open_journal(self._folder / "contracts")
        self._written = len(self._journal.found)
        self._incoming: Kept | None = None
        try:
            self._letters = open_letters(self._folder / LETTERS)
        except BaseException:
            self._journal.close()
            raise
        self._said: dict[str, Mark] = {}
        """The last places in our chains to partners whose letters are kept."""
        try:
            self._manager = self._make_manager()
            self._server = LogServer(
                participant.address, security, _Service(self), max_message=MAX_ENVELOPE
            )
        except BaseException:
            self._journal.close()
            self._letters.close()
            raise
        self._posts: dict[str, Queue[bytes]] = {}
        self._threads: list[Thread] = []
        for name in participant.partners:
            self._reach(name)
        self._thread(self._run, participant.name)

    def _thread(self, target: Callable[..., None], name: str, *args: str) -> None:
        thread = Thread(target=target, args=args, name=f"holdfast {name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _reach(self, partner: str) -> None:
        self._posts[partner] = Queue(WAITING)
        self._thread(self._carry, f"to {partner}", partner)

    def _make_manager(self) -> Manager:
        participant = self.participant
        records = unpack(self._journal.found)
        latest = Books(participant.name, records).latest
        begin = max(self._clock(), latest)
        self._origin = begin - self._clock.passed()
        return Manager(
            participant.name,
            participant.cost,
            participant.contracts(),
            participant.rules(),
            journal=records,
            now=begin,
            bound=self._last_bound(),
        )

    def _last_bound(self) -> dict[str, Mark]:
        """The last of our own letters to each partner that are kept."""
        me = self.participant.name
        last: dict[str, Mark] = {}
        for each in self._letters.found:
            try:
                opened = open_any(each.envelope, {me: self._signer.public})
            except WireError:
                continue  # A partner's.
            last[opened.receiver] = max(opened.letter.bound.mark, last.get(each.partner, NONE))
        return last

    def close(self) -> None:
        self._closing.set()
        self._events.put(None)
        self._server.close()
        for thread in self._threads:
            thread.join()
        self._tasks.close()
        self._journal.close()
        self._letters.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Called by any thread.

    def tell(self, event: Event) -> None:
        """Let the manager know of something."""
        self._events.put(event)

    def deliver(self, data: bytes) -> None:
        """A letter of a partner; WireError if it is none."""
        opened = open_letter(data, self.participant.name, self._keys)
        if opened.terms != self._terms(opened.sender):
            self.counts["other terms"] += 1
            raise WireError(
                f"contract: {opened.sender} has other terms in its file than "
                f"{self.participant.name}; compare them"
            )
        with self._lock:
            if self._waiting[opened.sender] >= MOST_LETTERS:
                self.counts["refused"] += 1
                raise WireError(
                    f"letters: {MOST_LETTERS} of {opened.sender} wait to be heard; send it later"
                )
            self._waiting[opened.sender] += 1
            self.counts["received"] += 1
        message = opened.letter.message
        if isinstance(message, Answer) and message.apart:
            logger.info(
                "%s does not take %s: it has another replica of the stage, or cannot run it",
                opened.sender,
                ", ".join(message.apart),
            )
        self.tell(lambda manager, now: self._receive(manager, opened, data, now))

    def _receive(self, manager: Manager, opened: Opened, data: bytes, now: int) -> list[Command]:
        with self._lock:
            self._waiting[opened.sender] -= 1
        self._incoming = Kept(opened.sender, data)
        return manager.receive(opened.sender, opened.letter, now)

    def renegotiate(self, changed: Participant) -> None:
        """Have partners and contracts as this file has them; what is on loan stays until it is due.
        Raises InvalidArgumentError if anything else has changed."""
        mine = self.participant
        for name in {field.name for field in fields(mine)} - NEGOTIABLE:
            if getattr(changed, name) != getattr(mine, name):
                raise InvalidArgumentError(
                    f"{mine.name}: {name} has changed; end the participant and start it again"
                )
        self.tell(lambda manager, now: self._renegotiate(manager, changed))

    def status(self) -> dict[str, Any]:
        """For its operator; partners are not told."""
        # Copies, for the thread of the manager goes on writing.
        holdings = list(self._manager.books.holdings.values())
        ledger = Ledger(self.participant.name, list(self._manager.books.ledger))
        loans = [each.loan for each in holdings if each.loan is not None]
        here = [each.task for each in holdings if each.is_here]
        load = total(each.load for each in here)
        return {
            "participant": self.participant.name,
            "failure": self.failure,
            "runs": sorted(each.id for each in here),
            "load": {"cpu": round(load.cpu, 3), "bandwidth": round(load.bandwidth, 3)},
            "overloaded": load.cpu > self.participant.capacity,
            "lent": {loan.id.task: loan.partner for loan in loans},
            "balances": {name: ledger.balance(name) for name in ledger.partners},
            "disputes": [str(each) for each in list(self._manager.books.ledger.disputes.values())],
            "failed": sorted(self._manager.failed),
            "apart": sorted({task for _, task in self._manager.buyer.apart}),
            "counts": dict(self.counts),
        }

    # The thread of the manager.

    def _run(self) -> None:
        try:
            self._begin()
            measured = 0.0
            while not self._closing.is_set():
                event = self._next_event()
                now = self._now()
                if event is not None:
                    self._obey(event(self._manager, now))
                if time.monotonic() - measured >= MEASURE:
                    measured = time.monotonic()
                    self._measure(now)
                    wall = self._clock()
                    write_standing(self._folder / STANDING, self._manager, now, wall)
                due = self._manager.due
                if due is not None and due <= now:
                    self._obey(self._manager.wake(now))
                if self._has_news and time.monotonic() >= self._publishable:
                    self._publish()
                    self._compact()
            if self._has_news:
                self._publish()
        except Exception as error:
            logger.exception("%s: its load manager has failed", self.participant.name)
            self.failure = f"{type(error).__name__}: {error}"

    def _publish(self) -> None:
        """For whoever runs it."""
        self._has_news = False
        begun = time.monotonic()
        write_ledger(self._folder / LEDGER, self._manager.books.ledger)
        write_whole(self._folder / STATUS, json.dumps(self.status()).encode() + b"\n")
        ended = time.monotonic()
        self._publishable = ended + max(PUBLISH, 10 * (ended - begun))

    def _renegotiate(self, manager: Manager, changed: Participant) -> list[Command]:
        gone = manager.partners - changed.partners.keys()
        if gone:
            logger.error(
                "%s: %s has tasks on loan, or is owed an answer; keep [partners.%s] until they are "
                "home, and leave out the contract",
                manager.me,
                *[sorted(gone)[0]] * 2,
            )
            return []
        self.participant = changed
        self._keys = {name: bytes.fromhex(each.public) for name, each in changed.partners.items()}
        for name in changed.partners.keys() - self._posts.keys():
            self._reach(name)
        manager.contracts.become(changed.contracts())
        logger.info("%s: has %d contracts now", manager.me, len(list(manager.contracts)))
        return []

    def _begin(self) -> None:
        if self._journal.found:
            self._obey(self._manager.recover(self._now()))
        for name, work in self.participant.tasks.items():
            known = LoanId(self.participant.name, 0, name) in self._manager.books.holdings
            if work.own and not known:
                task = Task(name, Load(work.load), work.kind, work.stage)
                self._obey(self._manager.own(task))

    def _next_event(self) -> Event | None:
        due = self._manager.due
        pause = MEASURE if due is None else max(0.0, (due - self._now()) / 1e6)
        try:
            return self._events.get(timeout=min(pause, MEASURE) + 1e-3)
        except Empty:
            return None

    def _now(self) -> int:
        """By the steady clock: silence and durations are no matter of what date it is. It begins
        with the date, for loans outlive the process, and never before what is in the journal."""
        return self._origin + self._clock.passed()

    def _measure(self, now: int) -> None:
        measured = self._tasks.loads()
        # One that comes back is measured anew.
        window = int(self.participant.window)
        self._smoothed = {name: self._smoothed.get(name) or Smoothed(window) for name in measured}
        loads = {
            name: _rounded(self._smoothed[name].measure(load, now))
            for name, load in measured.items()
        }
        self._obey(self._manager.measure(loads, self._tasks.broken()))

    def _obey(self, commands: list[Command]) -> None:
        """In order: what is to be persisted is safe before anything after it is done."""
        for command in commands:
            match command:
                case Persist(record):
                    self._write(record)
                    self._has_news = True
                case Send(to, letter):
                    self._post(to, letter)
                case Keep() if self._incoming is not None:
                    self._keep(self._incoming)
                case Prepare(task, epoch, source):
                    self._tasks.prepare(task, epoch, source, self.tell)
                case Start(task, epoch, bucket):
                    self._tasks.start(task, epoch, bucket, self.tell)
                case Halt(task, epoch):
                    self._tasks.halt(task, epoch, self.tell)
                case Resume(task, epoch):
                    self._tasks.resume(task, epoch)
                case Stop(task, epoch):
                    self._tasks.stop(task, epoch)
                case Fence(task, epoch):
                    self._tasks.fence(task, epoch, self.tell)

    def _write(self, record: Any) -> None:
        self._append(self._journal, pack(record))
        self._written += 1

    def _keep(self, kept: Kept) -> None:
        self._append(self._letters, kept)
        self._has_news = True

    def _append(self, journal: Journal[E], entry: E) -> None:
        while not self._closing.is_set():
            try:
                journal.append([entry])
                return
            except StoreUnavailableError as error:
                # Nothing that binds may be said before it is written.
                logger.error("%s", error)
                self._closing.wait(1.0)

    def _compact(self) -> None:
        """A journal does not grow for ever: one record stands for all that are written. Only when
        all that the books know is written."""
        books = self._manager.books
        if self._written < MOST_RECORDS + 4 * len(books.ledger) or self._closing.is_set():
            return
        try:
            self._journal.rewrite([pack(books.summary())])
            self._written = 1
        except StoreUnavailableError as error:
            logger.error("%s", error)

    # Partners.

    def _terms(self, partner: str) -> bytes:
        return terms_of(
            each for each in self._manager.contracts if partner in (each.buyer, each.seller)
        )

    def _post(self, to: str, letter: Letter) -> None:
        data = seal(self._signer, self.participant.name, to, self._terms(to), letter)
        if letter.bound.mark > self._said.get(to, NONE):
            # One that is said again is the same letter by its place in the chain.
            self._keep(Kept(to, data))
            self._said[to] = letter.bound.mark
        self.counts["sent"] += 1
        try:
            self._posts[to].put_nowait(data)
        except (Full, KeyError):
            self.counts["lost"] += 1

    def _carry(self, partner: str) -> None:
        while not self._closing.is_set():
            try:
                data = self._posts[partner].get(timeout=0.2)
            except Empty:
                continue
            known = self.participant.partners.get(partner)
            if known is None:
                continue
            address = known.address
            try:
                with LogClient(address, self._security, timeout=TIMEOUT) as client:
                    client.act("tell", data)
                    while not self._closing.is_set():
                        client.act("tell", self._posts[partner].get(timeout=2.0))
            except Empty:
                continue
            except HoldfastError as error:
                self.counts["unsent"] += 1
                logger.debug("%s: %s", partner, error)


def _rounded(load: Load) -> Load:
    """To a thousandth: what trembles less is no news, and not written down."""
    return Load(round(load.cpu, 3), round(load.bandwidth, 3))


class _Service:
    """What Flight's calls come to: a load manager has no links and no rows."""

    def __init__(self, manager: LoadManager) -> None:
        self._manager = manager

    def act(self, name: str, body: bytes) -> bytes:
        if name == "tell":
            self._manager.deliver(body)
            return b""
        raise InvalidArgumentError("action: a load manager knows tell; call that")

    def opened(self, party: str, outbox: Outbox) -> None:
        outbox.close()

    def received(self, party: str, message: LinkMessage) -> None:
        raise InvalidArgumentError("link: a load manager takes none; call its actions")

    def closed(self, party: str, outbox: Outbox) -> None:
        pass

    def read(self, ticket: bytes) -> pa.Table | pa.RecordBatchReader:
        raise InvalidArgumentError("ticket: a load manager has no rows")

    def push(self, stream: str, batch: pa.RecordBatch) -> bytes:
        raise InvalidArgumentError("push: a load manager takes no rows")

    def streams(self) -> Mapping[str, pa.Schema]:
        return {}
