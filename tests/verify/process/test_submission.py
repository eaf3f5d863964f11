from __future__ import annotations

import shutil
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.verified.plain import write_energy
from holdfast.errors import InvalidArgumentError
from holdfast.verify.machine import Holder
from holdfast.verify.process.config import ALL_TO_ALL, Config, Need, Pool
from holdfast.verify.process.confinement import can_confine
from holdfast.verify.process.placement import plan_placement
from holdfast.verify.process.progress import Submitted
from holdfast.verify.process.submission import Submission, submit

POOLS = tuple(Pool(name=f"p{n}", hosts=(f"h{n}",)) for n in range(1, 6))


def make(folder: Path, **settings: object) -> Submission:
    file, _ = write_energy(folder / "job", 1)
    given = {"storage": str(folder / "storage"), "work": str(folder / "work"), **settings}
    return submit(file, Config(pools=POOLS, replica=Need(cores=3, memory="2g")).override(given))


def test_every_submission_has_its_own_name_and_keys(tmp_path: Path) -> None:
    first, second = make(tmp_path / "1"), make(tmp_path / "2")
    assert first.name != second.name
    keys = {signer.secret for each in (first, second) for signer in each.signers.values()}
    assert len(keys) == 10
    assert first.folder.stat().st_mode & 0o77 == 0


def test_what_verifiers_go_by(tmp_path: Path) -> None:
    submission = make(tmp_path, faults=1, retries=2, slices=5)
    placement = plan_placement(submission.quorum.numbers, POOLS, shared=False)
    charter = submission.charter(placement)
    assert charter.job == submission.name
    assert charter.plan.stages["bills"] == ("charges", "hourly")
    assert charter.slices == 5
    assert charter.rules.retries == 2
    assert charter.rules.pools[2] == {"h2"}
    assert not charter.rules.shared_hosts


def test_what_a_replica_is_told(tmp_path: Path) -> None:
    submission = make(tmp_path, spark={"spark.a": "1"})
    pool = Pool(name="x", hosts=("x",), master="spark://x:7077", spark={"spark.b": "2"})
    orders = submission.orders(2, pool)
    assert orders.secret == submission.signers[2].secret
    assert orders.verifiers == orders.asks == submission.addresses
    assert orders.spark == {
        "spark.master": "spark://x:7077",
        "spark.cores.max": "3",
        "spark.executor.cores": "3",
        "spark.executor.memory": "2g",
        "spark.dynamicAllocation.enabled": "false",
        "spark.a": "1",
        "spark.b": "2",
    }
    assert submission.orders(2, POOLS[0]).spark["spark.master"] == "local[3]"
    said = Pool(name="x", hosts=("x",), cores=3, spark={"spark.master": "spark://x:7077"})
    assert submission.orders(2, said).spark["spark.cores.max"] == "3"
    assert orders.hosts == (), "its driver is beside the coordinator"
    launched = Pool(name="x", hosts=("x", "y"), launch=("ssh", "x"))
    assert submission.orders(2, launched).hosts == ("x", "y")
    assert [file.path for file in orders.sources["readings"]] == [
        str(tmp_path / "job" / "data" / "readings.parquet")
    ]


def test_ports_that_were_taken_while_it_waited_are_not_used(tmp_path: Path) -> None:
    submission = make(tmp_path, verifiers=3)
    with ExitStack() as stack:
        for address in submission.addresses:
            host, port = address.split(":")
            stack.enter_context(socket.create_server((host, int(port))))
        again = submission.at_free_ports()
        assert len(set(again.addresses) - set(submission.addresses)) == 3
    assert again.orders(1, POOLS[0]).verifiers == again.addresses
    assert (again.name, again.folder) == (submission.name, submission.folder)


def test_all_to_all_each_asks_its_own(tmp_path: Path) -> None:
    submission = make(tmp_path, verifiers=ALL_TO_ALL)
    assert len(submission.addresses) == 4
    orders = submission.orders(3, POOLS[2])
    assert orders.verifiers == submission.addresses
    assert orders.asks == (submission.addresses[2],)


def test_replicas_do_not_get_the_key_of_the_servers(tmp_path: Path) -> None:
    for name in ("token", "certificate", "key", "authority"):
        (tmp_path / name).write_text(name)
    names = {"token_file": "token"} | {each: each for each in ("certificate", "key", "authority")}
    keys = {field: str(tmp_path / name) for field, name in names.items()}
    submission = make(tmp_path, security=keys)
    security = submission.orders(1, POOLS[0]).security
    assert security is not None
    assert (security.token, security.authority) == ("token", b"authority")
    assert security.key is security.certificate is None


def test_replicas_get_a_certificate_of_their_own(tmp_path: Path) -> None:
    files = ("certificate", "key", "authority", "client_certificate", "client_key")
    for name in ("token", *files):
        (tmp_path / name).write_text(name)
    keys = {name: str(tmp_path / name) for name in files} | {
        "token_file": str(tmp_path / "token"),
        "mutual": True,
    }
    submission = make(tmp_path, security=keys)
    assert submission.security is not None
    assert submission.security.mutual
    security = submission.orders(1, POOLS[0]).security
    assert security is not None
    assert (security.token, security.authority) == ("token", b"authority")
    assert (security.certificate, security.key) == (b"client_certificate", b"client_key")
    del keys["client_key"]
    with pytest.raises(InvalidArgumentError, match="mutual needs client_certificate and client_"):
        make(tmp_path / "again", security=keys)


def test_a_job_without_keys_has_a_token_of_its_own(tmp_path: Path) -> None:
    first, second = make(tmp_path / "1"), make(tmp_path / "2")
    assert first.security.token
    assert first.security.token != second.security.token
    assert first.orders(1, POOLS[0]).security == first.security
    assert first.token_path.stat().st_mode & 0o77 == 0
    assert first.token_path.read_text() == first.security.token


def test_an_address_of_another_machine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"address: 192\.0\.2\.1: .*of this machine"):
        make(tmp_path, address="192.0.2.1")


def test_verifiers_beyond_this_machine_need_a_token_and_tls(tmp_path: Path) -> None:
    host = {"address": "10.0.0.11", "launch": ["ssh", "v1"]}
    with pytest.raises(InvalidArgumentError, match=r"10\.0\.0\.11 can be reached .*a token"):
        make(tmp_path, verifiers=[host])


def test_verifiers_on_hosts_of_their_own(tmp_path: Path) -> None:
    hosts = [
        {"address": "127.0.0.1", "port": 7301, "launch": ["ssh", "v1"], "work": "/var/own"},
        {"address": "127.0.0.2", "launch": ["ssh", "v2"]},
        {"address": "::1"},
    ]
    submission = make(tmp_path, verifiers=hosts)
    first, second, third = submission.addresses
    assert first == "127.0.0.1:7301"
    assert 20_000 <= int(second.removeprefix("127.0.0.2:")) < 32_000
    assert third.startswith("[::1]:")
    assert submission.verifiers_needed == 2
    assert submission.verifier_folder(1) == Path("/var/own", submission.name, "verifier-1")
    assert submission.verifier_folder(2) == submission.folder / "verifier-2"
    assert submission.at_free_ports().addresses[0] == first


def test_where_replicas_write_and_who_is_warned_of(tmp_path: Path) -> None:
    own = Pool(name="p1", hosts=("h1",), launch=("ssh", "h1"), storage=str(tmp_path / "own"))
    shared = Pool(name="p2", hosts=("h2",), launch=("ssh", "h2"))
    given = {"storage": str(tmp_path / "storage"), "work": str(tmp_path / "work")}
    file, _ = write_energy(tmp_path / "job", 1)

    def made(*pools: Pool) -> tuple[Submission, str]:
        submission = submit(file, Config(pools=pools).override(given))
        placement = plan_placement(submission.quorum.numbers, pools, shared=False)
        warning = submission.sharing(placement)
        assert submission.charter(placement).rules.own_files == (not warning)
        return submission, warning

    apart = [replace(own, name=f"p{n}", hosts=(f"h{n}",), storage=f"{n}") for n in range(1, 6)]
    _, warning = made(*apart)
    assert warning == ""
    submission, warning = made(own, shared, *apart[2:])
    assert "replicas in p2 can change the files of others" in warning
    orders = [submission.orders(n, pool) for n, pool in ((1, own), (2, shared))]
    assert [each.storage for each in orders] == [str(tmp_path / "own"), str(tmp_path / "storage")]
    for reads in (submission.reads, *(each.reads for each in orders)):
        assert reads.of(Holder(1, "h1", "x")) == tmp_path / "own"
        assert reads.of(Holder(2, "h2", "x")) == tmp_path / "storage"
    assert submission.own_folders(2, shared) == (), "it is not confined"


@pytest.mark.skipif(not can_confine(), reason="this kernel has no Landlock")
def test_replicas_beside_the_coordinator_are_confined(tmp_path: Path) -> None:
    submission = make(tmp_path, writable=(str(tmp_path / "ivy"),))
    placement = plan_placement(submission.quorum.numbers, POOLS, shared=False)
    assert submission.sharing(placement) == ""
    assert submission.own_folders(2, POOLS[1]) == (
        tmp_path / "storage" / submission.name / "2",
        submission.replica_folder(2),
        tmp_path / "ivy",
    )
    free = make(tmp_path / "free", confine=False)
    assert free.own_folders(2, POOLS[1]) == ()
    assert "replicas in p1, p2, p3, p4, p5 can" in free.sharing(placement)
    elsewhere = Pool(name="x", hosts=("x",), master="spark://x:7077", cores=4)
    assert submission.own_folders(2, elsewhere) == ()


def test_a_later_life_has_the_quota_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is free by then is less, by what the replicas themselves have written."""
    file, _ = write_energy(tmp_path / "job", 1)
    config = Config(pools=POOLS, storage=str(tmp_path / "storage"), work=str(tmp_path / "work"))
    first = submit(file, config)
    noted = Submitted(first.name, first.submitted, first.pins, first.quota)
    usage = shutil.disk_usage(tmp_path)._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert submit(file, config, noted).quota == first.quota > 1 << 20
