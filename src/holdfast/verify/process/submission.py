"""One submission of a job: its name, keys and folders, and the launch spec of each process."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from holdfast.errors import InvalidArgumentError, StoreUnavailableError
from holdfast.storage.signing import Signer
from holdfast.transport.addresses import Address
from holdfast.transport.security import OPEN, Security, check_address
from holdfast.verify.machine import COORDINATOR, Mode, Model, Plan, Quorum, Rules
from holdfast.verify.process.client import Verifiers, Witness
from holdfast.verify.process.config import (
    ALL_TO_ALL,
    Config,
    Pool,
    VerifierHost,
    is_local,
    parse_memory,
)
from holdfast.verify.process.confinement import can_confine
from holdfast.verify.process.job_files import Program, load_job, read_code
from holdfast.verify.process.job_spec import Charter
from holdfast.verify.process.jobs import Job
from holdfast.verify.process.pinned_files import (
    CODE,
    PROGRAM,
    SourceFile,
    imported_files,
    pin_files,
)
from holdfast.verify.process.placement import Placement
from holdfast.verify.process.progress import Submitted
from holdfast.verify.process.resuming import check_pins, pin
from holdfast.verify.process.slice_files import Storage
from holdfast.verify.process.sources import make_source


@dataclass(frozen=True)
class Orders:
    file: str
    """That describes the job; it is not read again."""
    code: bytes
    """What was in it when the job was submitted."""
    job: str
    """What this submission of it is called, in reports and in the storage."""
    replica: int
    mode: Mode
    slices: int
    retries: int
    """As the verifiers have them."""
    submitted: int
    """When, in microseconds since 1970."""
    sources: dict[str, tuple[SourceFile, ...]]
    """The files that there were then."""
    storage: str
    """The folder that it writes to, seen by its driver and its executors."""
    hosts: tuple[str, ...]
    """Where its driver is to be; empty if that is beside the coordinator."""
    verifiers: tuple[str, ...]
    """Whom it reports to."""
    asks: tuple[str, ...]
    """Whom it asks: all of them, or with one in each replica its own."""
    secret: bytes = field(repr=False)
    """Its signing key."""
    security: Security | None = field(default=None, repr=False)
    common: str = ""
    """The folder of those that have none of their own; empty if that is `storage`."""
    storages: dict[str, str] = field(default_factory=dict)
    """The folders of those that have one, by host."""
    spark: dict[str, str] = field(default_factory=dict)
    """Settings of its session, among them `spark.master`."""
    arguments: tuple[str, ...] = ()
    """Of the program, or of the Python file that makes the job."""
    pins: bytes = b""
    """The digest of code, arguments, sources and settings; part of the basis of every report."""

    @property
    def reads(self) -> Storage:
        """Where the copies of all lie."""
        own = {host: Path(folder) for host, folder in self.storages.items()}
        return Storage(Path(self.common or self.storage), own)

    def encode(self) -> bytes:
        """One line."""
        return msgspec.json.encode(self) + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Orders:
        try:
            return msgspec.json.decode(line, type=cls)
        except msgspec.MsgspecError as error:
            raise InvalidArgumentError(
                f"orders: {error}; give those of a replica, as a line of JSON"
            ) from None


PORTS: Final = range(20_000, 32_000)
"""Of verifiers on other hosts, if none is given: below those that kernels give to connections."""


@dataclass(frozen=True)
class Submission:
    name: str
    """Of this submission; no other has it."""
    job: str
    file: Path
    code: bytes
    """What was in the file."""
    arguments: tuple[str, ...]
    plan: Plan
    writes: tuple[str, ...]
    """Stages that the program has written elsewhere."""
    quorum: Quorum
    config: Config
    sources: dict[str, tuple[SourceFile, ...]]
    storage: Path
    """That all replicas see, and nobody trusts."""
    folder: Path
    """Of this submission, on this machine: journals, logs, traces, the account."""
    submitted: int
    """In microseconds since 1970."""
    addresses: tuple[str, ...]
    """Of the verifiers."""
    signers: dict[int, Signer] = field(repr=False)
    security: Security = field(repr=False)
    client_security: Security = field(repr=False)
    """As replicas get it."""
    pins: dict[str, str]
    """See `Submitted`."""
    quota: int
    """Bytes that one replica may take."""

    @property
    def is_all_to_all(self) -> bool:
        return self.config.verifiers == ALL_TO_ALL

    @property
    def token_path(self) -> Path:
        """The file with the token of this job alone, unless the config has one."""
        return _token_in(self.folder)

    @property
    def charter_path(self) -> Path:
        return self.folder / "charter.json"

    def verifier_host(self, number: int) -> VerifierHost | None:
        """None if it is not said where it runs: beside the coordinator."""
        hosts = self.config.verifiers
        return hosts[number - 1] if isinstance(hosts, tuple) else None

    def verifier_folder(self, number: int) -> Path:
        """On the host where it runs."""
        host = self.verifier_host(number)
        folder = Path(host.work, self.name) if host and host.work else self.folder
        return folder / f"verifier-{number}"

    def replica_folder(self, number: int) -> Path:
        return self.folder / f"replica-{number}"

    def charter(self, placement: Placement) -> Charter:
        return Charter(
            job=self.name,
            stages=dict(self.plan.stages),
            slices=self.plan.slices,
            model=self.quorum.model,
            faults=self.quorum.faults,
            rules=Rules(
                mode=self.config.mode,
                retries=self.config.retries,
                patience=self.config.patience,
                limit=self.config.limit,
                shared_hosts=bool(placement.warning),
                own_files=not self._sharers(placement),
                pools=placement.audited,
            ),
            keys={number: signer.public for number, signer in self.signers.items()},
            peer_key=secrets.token_bytes(32),
            pins=self.plan.pins,
        )

    def orders(self, replica: int, pool: Pool) -> Orders:
        own = self.addresses[replica - 1 : replica] if self.is_all_to_all else self.addresses
        return Orders(
            file=str(self.file),
            code=self.code,
            arguments=self.arguments,
            job=self.name,
            replica=replica,
            mode=self.config.mode,
            slices=self.plan.slices,
            retries=self.config.retries,
            submitted=self.submitted,
            sources=self.sources,
            pins=self.plan.pins,
            storage=pool.storage or str(self.storage),
            common=str(self.storage),
            storages={host: str(folder) for host, folder in self.reads.own.items()},
            hosts=pool.hosts if pool.launch else (),
            verifiers=self.addresses,
            asks=own,
            secret=self.signers[replica].secret,
            security=self.client_security,
            spark=self.config.settings_of(pool),
        )

    @property
    def reads(self) -> Storage:
        """Where the copies of all replicas lie."""
        pools = [pool for pool in self.config.pools if pool.storage is not None]
        own = {host: Path(str(pool.storage)) for pool in pools for host in pool.hosts}
        return Storage(self.storage, own)

    def own_folders(self, replica: int, pool: Pool) -> tuple[Path, ...]:
        """What a replica in this pool is confined to: its part of the storage, its own folder, and
        those that all may write to. None if it is not confined."""
        if not self._is_confined(pool):
            return ()
        own = (self.part_of(replica, pool), self.replica_folder(replica))
        return (*own, *map(Path, self.config.writable))

    def part_of(self, replica: int, pool: Pool) -> Path:
        """The folder of a replica in the storage."""
        return Path(pool.storage or self.storage) / self.name / str(replica)

    def sharing(self, placement: Placement) -> str:
        """A warning if a replica that lies could change the files of others."""
        sharers = self._sharers(placement)
        if not sharers or self.quorum.model is Model.CRASH:
            return ""
        return (
            f"storage: replicas in {', '.join(sharers)} can change the files of others. Nothing "
            "wrong is delivered by that; but one that does so can end the job, and nobody is named "
            "for it. Give each pool a `storage` that only its own hosts can write to"
        )

    def _sharers(self, placement: Placement) -> list[str]:
        """The pools whose replicas can write where those of others can."""
        found = [
            pool.name
            for pool in placement.everywhere
            if not self._is_confined(pool) and (pool.storage is None or placement.warning)
        ]
        return list(dict.fromkeys(found))

    def _is_confined(self, pool: Pool) -> bool:
        is_here = not pool.launch and is_local(self.config.master_of(pool))
        return self.config.confine and is_here and can_confine()

    def at_free_ports(self) -> Submission:
        """With other addresses: those that were free when it was submitted may have been taken
        while it waited for its turn."""
        return replace(self, addresses=_addresses(self.config, len(self.addresses)))

    def witness(self, timeout: float) -> Witness:
        """What the coordinator speaks through."""
        return Witness(
            self.name,
            COORDINATOR,
            self.signers[COORDINATOR],
            self.addresses,
            self.security,
            needed=self._needed,
            timeout=timeout,
        )

    def verifiers(self, timeout: float) -> Verifiers:
        """As the coordinator asks them."""
        return Verifiers(
            self.plan,
            self.config.retries,
            self.addresses,
            self.security,
            needed=self._needed,
            timeout=timeout,
            witness=self.witness(timeout),
        )

    @property
    def verifiers_needed(self) -> int:
        """How many of them must answer, or nothing goes on."""
        return self._needed or len(self.addresses) // 2 + 1

    @property
    def _needed(self) -> int | None:
        """How many verifiers must hear or say the same: more than half. Of those beside replicas so
        many as replicas must agree, for the others may be as wrong as their replicas."""
        return self.quorum.needed if self.is_all_to_all else None


def submit(
    file: Path,
    config: Config,
    earlier: Submitted | None = None,
    *,
    arguments: Sequence[str] = (),
) -> Submission:
    """Read the job, hash the files that it reads, and make what its processes need.

    Nothing is started. `earlier`: the submission to go on with; raises InvalidArgumentError if it
    was of something else. Keys are made anew: what is signed with those of a killed coordinator's
    replicas counts only as far as the verifiers have it in their journals.
    """
    code = read_code(file)
    # Before it is run, which imports them.
    imported = pin_files(imported_files(file, code))
    job = load_job(file, code, arguments)
    quorum = Quorum(config.model, config.faults)
    submitted = time.time_ns() // 1000 if earlier is None else earlier.submitted
    sources = pin_sources(job) | ({CODE: imported} if imported else {})
    pins = pin(file.resolve(), code, config, sources, arguments)
    if earlier is None:
        name = f"{job.name}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    else:
        name = earlier.name
        check_pins(name, earlier.pins, pins)
    storage = Path(config.storage or ".holdfast-verify/storage").resolve()
    folder = work_of(config) / name
    try:
        storage.mkdir(parents=True, exist_ok=True)
        folder.mkdir(parents=True, mode=0o700, exist_ok=earlier is not None)
    except OSError as error:
        raise StoreUnavailableError(
            f"{error.filename}: {error.strerror}; give a --storage and a --work that may be "
            "written to"
        ) from error
    count = _count(config, quorum)
    return Submission(
        name=name,
        job=job.name,
        file=file.resolve(),
        code=code,
        arguments=tuple(arguments),
        plan=Plan(
            job.plan.stages,
            config.slices or job.slices,
            sha256(msgspec.json.encode([submitted, pins], order="deterministic")).digest(),
        ),
        writes=job.writes if isinstance(job, Program) else (),
        quorum=quorum,
        config=config,
        sources=sources,
        storage=storage,
        folder=folder,
        submitted=submitted,
        addresses=_addresses(config, count),
        signers={number: Signer.make() for number in (COORDINATOR, *quorum.numbers)},
        security=config.read_security() or _own_security(folder),
        client_security=config.read_client_security() or _own_security(folder),
        pins=pins,
        quota=(earlier and earlier.quota) or _quota(config, storage, quorum.replicas),
    )


def _quota(config: Config, storage: Path, replicas: int) -> int:
    if config.quota is not None:
        return parse_memory("quota", config.quota)
    return shutil.disk_usage(storage).free * 9 // 10 // replicas


def work_of(config: Config) -> Path:
    """Where the folders of submissions are."""
    return Path(config.work or ".holdfast-verify/work").resolve()


def pin_sources(job: Job | Program) -> dict[str, tuple[SourceFile, ...]]:
    """The files of each source; those that a program lists are one source."""
    if isinstance(job, Job):
        return {name: pin_files(source.find(job.folder)) for name, source in job.sources.items()}
    found = [
        path
        for listed in job.sources
        for path in make_source(listed, listed, None, None, {}).find(job.path.parent)
    ]
    return {PROGRAM: pin_files(sorted(set(found)))} if found else {}


def _count(config: Config, quorum: Quorum) -> int:
    """Of the verifiers."""
    if isinstance(config.verifiers, tuple):
        return len(config.verifiers)
    return config.verifiers if isinstance(config.verifiers, int) else quorum.replicas


def _addresses(config: Config, count: int) -> tuple[str, ...]:
    """Ports are chosen here so that each verifier knows the others."""
    if not isinstance(config.verifiers, tuple):
        return _free_addresses(config.address, count)
    security = config.read_security() or OPEN
    found = []
    for each in config.verifiers:
        check_address(each.address, security)
        # Nobody looks whether another process has it: that host may be down, and others go on.
        port = each.port or secrets.choice(PORTS)
        found.append(str(Address(each.address.strip("[]"), port)))
    return tuple(found)


def _free_addresses(host: str, count: int) -> tuple[str, ...]:
    """Ports that are free now."""
    taken = []
    try:
        for _ in range(count):
            some = socket.create_server((host, 0))
            taken.append(some)
        return tuple(f"{host}:{some.getsockname()[1]}" for some in taken)
    except OSError as error:
        raise InvalidArgumentError(
            f"address: {host}: {error.strerror}; give an address of this machine"
        ) from error
    finally:
        for some in taken:
            some.close()


def _token_in(folder: Path) -> Path:
    return folder / "token"


def _own_security(folder: Path) -> Security:
    """A token of this job alone: other processes of the machine reach its verifiers too."""
    path = _token_in(folder)
    if not path.exists():
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(32))
    return Security.read(token_file=path)
