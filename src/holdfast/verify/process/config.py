"""Configuration of verified jobs: a TOML file with pools of hosts and a job's needs.

    model = "byzantine"
    storage = "/mnt/shared/holdfast"

    [replica]
    cores = 2
    memory = "2g"

    [[pools]]
    name = "north"
    hosts = ["n1", "n2"]
    master = "spark://n1:7077"
    cores = 16

Everything has a default but a pool's name and hosts, and the cores of one with a master.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from holdfast.errors import InvalidArgumentError
from holdfast.transport.security import Security
from holdfast.verify.machine import Mode, Model

ALL_TO_ALL: Final = "all-to-all"

_MEMORY: Final = re.compile(r"([1-9][0-9]*)([kmgt])", re.IGNORECASE)


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the file."""


class Need(_Table, frozen=True):
    """What one replica takes."""

    cores: int = 1
    memory: str = "1g"


class Pool(_Table, frozen=True):
    """Hosts on which one replica may run. No host is in two pools."""

    name: str
    hosts: tuple[str, ...]
    """What the machines call themselves: `hostname` there, or HOLDFAST_HOST."""
    master: str = ""
    """The Spark master; without one a replica has its executors in itself."""
    cores: int | None = None
    """How many there are for verified jobs; without it as many as one likes. Must be given where
    there is a master that gives them out."""
    memory: str | None = None
    spark: dict[str, str] = {}
    """Settings of Spark, as those that keep executors on these hosts."""
    environment: dict[str, str] = {}
    """Variables of the drivers that are started for this pool."""
    storage: str | None = None
    """A folder for what its replica writes: all hosts see it under this path, and only those of
    the pool can write there. Without it replicas write to the storage of all."""
    launch: tuple[str, ...] = ()
    """Words before the command that starts a driver, as ["ssh", "n1"]; without them drivers run
    beside the coordinator. Standard input and output must come through as they are."""


class Keys(_Table, frozen=True):
    """What keeps strangers away from verifiers that others than this machine can reach."""

    token_file: str | None = None
    token_env: str | None = None
    certificate: str | None = None
    key: str | None = None
    """Of the servers; replicas do not get it."""
    authority: str | None = None
    mutual: bool = False
    """Callers must show a certificate of the authority before anything of a call is read."""
    client_certificate: str | None = None
    client_key: str | None = None
    """Shown by replicas; given to them and to the executors of Spark."""


class VerifierHost(_Table, frozen=True):
    """Where one verifier runs. Paths are those of that host."""

    address: str
    """Where it listens, as replicas, the coordinator and the other verifiers reach it."""
    port: int = 0
    """0: any."""
    launch: tuple[str, ...] = ()
    """Words before the command that starts it, as those of a pool; without them it runs beside the
    coordinator."""
    work: str | None = None
    """The folder for its journal; without it that of the coordinator, under the same path."""
    certificate: str | None = None
    key: str | None = None
    authority: str | None = None
    """Its own, in place of those in `security`."""


class Config(_Table, frozen=True):
    model: Model = Model.BYZANTINE
    faults: int = 1
    mode: Mode = Mode.HYBRID
    slices: int | None = None
    """Without it as the job says."""
    retries: int = 3
    """How often a stage is computed again, or the job in mode non-blocking."""
    patience: float = 300.0
    """Seconds that a replica may be behind the others; longer than a stage takes."""
    limit: float = 3600.0
    """Seconds without a slice that is agreed upon, or a replica that starts, after which the job
    has failed; longer than a stage takes."""
    restarts: int = 2
    """How often a replica is started again whose process has ended."""
    linger: float = 5.0
    """Seconds that replicas may go on when the result is there, so that late ones are judged."""
    verifiers: int | Literal["all-to-all"] | tuple[VerifierHost, ...] = 1
    """How many, or where, of which more than half must say the same; or one for each replica."""
    address: str = "127.0.0.1"
    """Where verifiers listen."""
    storage: str | None = None
    """A folder that all replicas see."""
    quota: str | None = None
    """What one replica may take of the storage and of `work`, as 50g. Without it each may take an
    equal share of nine tenths of what is free there when the job is submitted."""
    confine: bool = True
    """Whether replicas beside the coordinator can write to folders of their own alone, if this
    kernel can see to that."""
    writable: tuple[str, ...] = ()
    """Folders that they may write to besides, all of them."""
    work: str | None = None
    """A folder of this machine for journals, logs and traces."""
    allow_shared_hosts: bool = False
    """For development only."""
    price: float | None = None
    """Of one replica for an hour, in whatever money; the account says what the job has cost."""
    slots: str | None = None
    """A folder that all who submit jobs to these pools have in common, and no replica writes to: it
    says who has which room. Without it `slots` in `work`."""
    replica: Need = Need()
    pools: tuple[Pool, ...] = ()
    spark: dict[str, str] = {}
    """Settings of Spark for all replicas."""
    security: Keys | None = None

    def __post_init__(self) -> None:
        if self.restarts < 0:
            raise InvalidArgumentError(f"restarts: {self.restarts} is too few; give 0 or more")
        if self.linger < 0:
            raise InvalidArgumentError(f"linger: {self.linger:g} is too short; give 0 or more")
        if self.price is not None and self.price < 0:
            raise InvalidArgumentError(
                f"price: {self.price:g} is less than nothing; give 0 or more"
            )
        if isinstance(self.verifiers, int) and self.verifiers < 1:
            raise InvalidArgumentError(
                f'verifiers: {self.verifiers} is too few; give 1 or more, or "{ALL_TO_ALL}"'
            )
        if isinstance(self.verifiers, tuple):
            _check_verifiers(self.verifiers)
        if self.quota is not None:
            parse_memory("quota", self.quota)
        if self.replica.cores < 1:
            raise InvalidArgumentError(f"replica.cores: {self.replica.cores} is too few; give 1")
        parse_memory("replica.memory", self.replica.memory)
        self._check_pools()

    def _check_pools(self) -> None:
        owners: dict[str, str] = {}
        stores: list[str | None] = []
        for number, pool in enumerate(self.pools, 1):
            place = f"pools #{number} ({pool.name})"
            if not pool.hosts:
                raise InvalidArgumentError(f"{place}: has no hosts; name at least one")
            if [each.name for each in self.pools].count(pool.name) > 1:
                raise InvalidArgumentError(f"{place}: another has this name; give it its own")
            for host in pool.hosts:
                other = owners.setdefault(host, pool.name)
                if other != pool.name:
                    raise InvalidArgumentError(
                        f"{place}: host {host} is in pool {other} too, so that one machine could "
                        "spoil two replicas; leave it in one"
                    )
            if pool.storage is not None and pool.storage in (self.storage, *stores):
                raise InvalidArgumentError(
                    f"{place}: storage: {pool.storage} is that of others too, who could change its "
                    "files; give the pool its own, or leave it out"
                )
            stores.append(pool.storage)
            if pool.memory is not None:
                parse_memory(f"{place}: memory", pool.memory)
            master = self.master_of(pool)
            if pool.cores is None and not is_local(master):
                raise InvalidArgumentError(
                    f"{place}: cores: is missing, so that two jobs could each get half of those of "
                    f"{master} and wait for each other; write how many verified jobs may "
                    "take, as cores = 16"
                )
            if not is_local(master):
                self._check_room(place, pool)

    def master_of(self, pool: Pool) -> str:
        """The Spark master of a pool; empty if there is none."""
        return (self.spark | pool.spark).get("spark.master", pool.master)

    @property
    def exchangeable(self) -> dict[str, str]:
        """The standalone masters of pools, by name, where replicas do not lie about their hosts:
        such a master chooses hosts among all that it has, and cannot be told which."""
        if self.model is not Model.CRASH:
            return {}
        masters = {pool.name: self.master_of(pool) for pool in self.pools}
        return {name: each for name, each in masters.items() if each.startswith("spark://")}

    def settings_of(self, pool: Pool) -> dict[str, str]:
        """Of Spark, for a replica in a pool: it asks for as many cores as the ledger of slots
        counts, whatever the kind of its master."""
        need, master, said = self.replica, self.master_of(pool), self.spark | pool.spark
        if is_local(master):
            return {
                "spark.master": master or f"local[{need.cores}]",
                "spark.driver.memory": need.memory,
            } | said
        each = said.get("spark.executor.cores", str(need.cores))
        executors = max(1, need.cores // max(1, _whole(each)))
        memory = parse_memory("replica.memory", need.memory) // executors
        found = {
            "spark.master": master,
            "spark.executor.cores": each,
            "spark.executor.memory": need.memory if executors == 1 else f"{memory >> 10}k",
            "spark.dynamicAllocation.enabled": "false",
        }
        if master.startswith("spark://"):
            found["spark.cores.max"] = str(need.cores)
        else:
            # YARN and Kubernetes know no bound on cores but so many executors of so many.
            found["spark.executor.instances"] = str(executors)
        return found | said

    def _check_room(self, place: str, pool: Pool) -> None:
        """Refuse settings of Spark by which a replica would take other than `replica.cores`, or
        more than `replica.memory` where that is counted."""
        settings, cores = self.settings_of(pool), self.replica.cores
        if settings["spark.master"].startswith("spark://"):
            most, how = _whole(settings["spark.cores.max"]), "spark.cores.max"
        else:
            is_dynamic = settings["spark.dynamicAllocation.enabled"].strip().lower() == "true"
            name = (
                f"spark.{'dynamicAllocation.maxExecutors' if is_dynamic else 'executor.instances'}"
            )
            each = _whole(settings["spark.executor.cores"])
            most, how = _whole(settings.get(name, "")) * each, f"{name} x spark.executor.cores"
        if most != cores:
            given = str(most) if most else "no number"
            raise InvalidArgumentError(
                f"{place}: spark: {how} is {given}, and a replica takes {cores} cores: others "
                "would wait for cores that are not free; write cores under [replica], and leave "
                "that out"
            )

        if pool.memory is not None:
            self._check_memory(place, settings)

    def _check_memory(self, place: str, settings: Mapping[str, str]) -> None:
        """Executors are so many that they have all cores of the replica together."""
        name = "spark.executor.memory"
        each = parse_memory(f"{place}: spark: {name}", settings[name])
        most = parse_memory("replica.memory", self.replica.memory)
        if each * self.replica.cores > most * _whole(settings["spark.executor.cores"]):
            raise InvalidArgumentError(
                f"{place}: spark: {name} is {settings[name]} for each executor, and a replica "
                f"takes {self.replica.memory}; write memory under [replica], and leave that out"
            )

    @classmethod
    def read(cls, path: Path) -> Config:
        """Paths in the file are relative to it."""
        try:
            config = msgspec.toml.decode(path.read_bytes(), type=cls)
        except OSError as error:
            raise InvalidArgumentError(
                f"{path}: {error.strerror}; name a file with the hosts there are, as TOML"
            ) from error
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InvalidArgumentError(
                f"{path}: {error}; docs/verified.md has every field"
            ) from error
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{path}: {error}") from None
        return msgspec.structs.replace(
            config,
            storage=_beside(path, config.storage),
            work=_beside(path, config.work),
            slots=_beside(path, config.slots),
            writable=tuple(str(path.resolve().parent / each) for each in config.writable),
            pools=tuple(
                msgspec.structs.replace(pool, storage=_beside(path, pool.storage))
                for pool in config.pools
            ),
            security=None
            if config.security is None
            else msgspec.structs.replace(
                config.security,
                token_file=_beside(path, config.security.token_file),
                certificate=_beside(path, config.security.certificate),
                key=_beside(path, config.security.key),
                authority=_beside(path, config.security.authority),
                client_certificate=_beside(path, config.security.client_certificate),
                client_key=_beside(path, config.security.client_key),
            ),
        )

    def override(self, given: Mapping[str, object]) -> Config:
        """With what is given in place of what the file says; None stands for nothing."""
        fields = msgspec.to_builtins(self) | {
            name: value for name, value in given.items() if value is not None
        }
        try:
            return msgspec.convert(fields, Config)
        except msgspec.ValidationError as error:
            raise InvalidArgumentError(f"{error}; see `holdfast verify --help`") from None

    def read_security(self) -> Security | None:
        keys = self.security
        if keys is None:
            return None
        return Security.read(
            token_file=keys.token_file,
            token_env=keys.token_env,
            certificate=keys.certificate,
            key=keys.key,
            authority=keys.authority,
            mutual=keys.mutual,
        )

    def read_client_security(self) -> Security | None:
        """As replicas have it: without the key of the servers."""
        keys, servers = self.security, self.read_security()
        if keys is None or servers is None:
            return None
        if keys.mutual and not (keys.client_certificate and keys.client_key):
            raise InvalidArgumentError(
                "security: mutual needs client_certificate and client_key, which replicas show; "
                "give them, or set mutual = false"
            )
        own = Security.read(
            certificate=keys.client_certificate, key=keys.client_key, authority=keys.authority
        )
        return dataclasses.replace(own, token=servers.token)


def _check_verifiers(verifiers: tuple[VerifierHost, ...]) -> None:
    if not verifiers:
        raise InvalidArgumentError("verifiers: is empty; name one host or more, or leave it out")
    for number, each in enumerate(verifiers, 1):
        place = f"verifiers #{number} ({each.address})"
        if not each.address:
            raise InvalidArgumentError(f"{place}: address: is empty; write where it listens")
        if not 0 <= each.port < 65536:
            raise InvalidArgumentError(f"{place}: port: {each.port} is none; write 1 to 65535")
        for name in ("work", "certificate", "key", "authority"):
            path = getattr(each, name)
            if path is not None and not path.startswith("/"):
                raise InvalidArgumentError(
                    f"{place}: {name}: {path} is relative, and this is a path of that host; begin "
                    "it with /"
                )


def is_local(master: str) -> bool:
    """Whether a replica has its executors in itself."""
    return not master or master.startswith("local")


def parse_memory(place: str, text: str) -> int:
    """Bytes, of a text such as 512m."""
    found = _MEMORY.fullmatch(text.strip())
    if found is None:
        raise InvalidArgumentError(f"{place}: {text!r} is no amount of memory; write 512m or 2g")
    return int(found[1]) << {"k": 10, "m": 20, "g": 30, "t": 40}[found[2].lower()]


def _whole(text: str) -> int:
    """A number above 0 as Spark's settings have it; 0 for anything else."""
    return int(text) if text.strip().isdecimal() else 0


def _beside(file: Path, path: str | None) -> str | None:
    return None if path is None else str(file.resolve().parent / path)
