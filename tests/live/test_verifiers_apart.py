"""Verifiers on hosts of their own: network namespaces with folders that no other one sees.

One link is cut while a job runs, and the job is verified. Needs the right to make namespaces; all
traffic stays in those that the test makes.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.processes import Family, spark_environment
from harness.verified.cases import is_bill
from harness.verified.plain import write_energy
from harness.waiting import wait_for
from holdfast.verify.process.processes import end_leftovers
from holdfast.verify.process.report import Account
from tests.transport.certificates import Authority

HERE = "10.209.7.1"
THERE = ("10.209.7.11", "10.209.7.12", "10.209.7.13")
OWN_FOLDER = 'mount --bind "$0-disk" "$0" && exec "$@"'

COMMAND = """
import sys
from functools import partial
from pathlib import Path
from rich.console import Console
from holdfast.verify.process.command import verify_job
from holdfast.verify.process.config import Config
from holdfast.verify.process.processes import ProcessLauncher
launch = partial(ProcessLauncher, replica=("-m", "harness.verified.plain_replica"))
config = Config.read(Path("verify.toml"))
verify_job(Path(sys.argv[1]), config, Path("out"), Console(), launch=launch)
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Network:
    """A host for the coordinator with a switch, and one for each verifier."""

    def __init__(self) -> None:
        self._name = f"hf-{secrets.token_hex(3)}"
        self.here = f"{self._name}-0"
        self.there = [f"{self._name}-{number}" for number in range(1, len(THERE) + 1)]

    def make(self) -> None:
        for each in (self.here, *self.there):
            ip("netns", "add", each)
            ip("-n", each, "link", "set", "lo", "up")
        ip("-n", self.here, "link", "add", "switch", "type", "bridge")
        ip("-n", self.here, "addr", "add", f"{HERE}/24", "dev", "switch")
        ip("-n", self.here, "link", "set", "switch", "up")
        for number, (each, address) in enumerate(zip(self.there, THERE, strict=True)):
            port = f"port{number}"
            ip(*f"-n {self.here} link add {port} type veth peer name eth netns {each}".split())
            ip("-n", self.here, "link", "set", port, "master", "switch", "up")
            ip("-n", each, "addr", "add", f"{address}/24", "dev", "eth")
            ip("-n", each, "link", "set", "eth", "up")

    def cut(self, number: int) -> None:
        ip("-n", self.here, "link", "set", f"port{number}", "down")

    def remove(self) -> None:
        for each in (self.here, *self.there):
            subprocess.run(["ip", "netns", "del", each], check=False, capture_output=True)


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network()
    try:
        made.make()
        probe = ["ip", "netns", "exec", made.here, "unshare", "--mount", "true"]
        subprocess.run(probe, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        made.remove()
        pytest.skip(f"needs the right to make network and mount namespaces: {error}")
    try:
        yield made
    finally:
        made.remove()


def write_settings(folder: Path, network: Network) -> None:
    """Every verifier has its own key and its own folder for its journal."""
    authority = Authority("jobs")
    (folder / "authority.pem").write_bytes(authority.certificate)
    (folder / "token").write_text("a-token-of-the-test")
    lines = ['storage = "storage"', 'work = "work"', "allow_shared_hosts = true", "linger = 60.0"]
    lines += ["[security]", 'token_file = "token"', 'authority = "authority.pem"', "mutual = true"]
    for name in ("certificate", "client_certificate"):
        identity = authority.sign(HERE)
        (folder / f"{name}.pem").write_bytes(identity.certificate)
        (folder / f"{name}.key").write_bytes(identity.key)
        lines += [f'{name} = "{name}.pem"', f'{name.replace("certificate", "key")} = "{name}.key"']
    for name, address in zip(network.there, THERE, strict=True):
        identity = authority.sign(address)
        (folder / f"{address}.pem").write_bytes(identity.certificate)
        (folder / f"{address}.key").write_bytes(identity.key)
        own = folder / f"own-{address}"
        own.mkdir()
        own.with_name(f"{own.name}-disk").mkdir()
        launch = ["ip", "netns", "exec", name, "unshare", "--mount"]
        launch += ["sh", "-c", OWN_FOLDER, str(own)]
        lines += [
            "[[verifiers]]",
            f'address = "{address}"',
            f"launch = {json.dumps(launch)}",
            f'work = "{own}"',
            f'certificate = "{folder / address}.pem"',
            f'key = "{folder / address}.key"',
        ]
    (folder / "verify.toml").write_text("\n".join(lines))


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_job_is_verified_though_a_verifier_is_cut_off(
    is_killed: bool, network: Network, tmp_path: Path
) -> None:
    """Also if the coordinator is killed as well: what was agreed upon is in the journals there."""
    file, expected = write_energy(tmp_path / "job", 3)
    held = tmp_path / "held"
    held.touch()
    place = "    known = {row"
    wait = f"    while Path({str(held)!r}).exists():\n        time.sleep(0.05)\n"
    text = file.read_text().replace(place, wait + place)
    file.write_text(
        text.replace("import math\n", "import math\nimport time\nfrom pathlib import Path\n")
    )
    write_settings(tmp_path, network)
    command = ["ip", "netns", "exec", network.here, sys.executable, "-c", COMMAND, str(file)]
    work = tmp_path / "work"
    environment = spark_environment(tmp_path)
    try:
        with Family(command, tmp_path, environment, log="log") as family:
            wait_for(family.tail, lambda: agreed_in(work) or family.status is not None, 120)
            network.cut(2)
            if is_killed:
                family.kill()
            else:
                held.unlink()
                family.wait_gone(240)
                assert family.status == 0, family.tail()
        (folder,) = work.glob("energy-*")
        hourly = steps(folder, "hourly")
        if is_killed:
            held.unlink()
            with Family(command, tmp_path, environment, log="again") as family:
                family.wait_gone(240)
                assert family.status == 0, family.tail()
    finally:
        for each in work.glob("energy-*"):
            end_leftovers(each.name, 0.0)
    account = Account.read(folder)
    assert account.is_verified
    assert account.lives == 1 + is_killed
    assert is_bill(expected)(tmp_path / "out")
    assert steps(folder, "hourly") == hourly, "it was agreed upon before"
    assert not any(each.stage for each in account.findings), "nobody is blamed for a link"
    assert not list(folder.glob("verifier-*/journal")), "the coordinator has no votes"
    assert not any(list((tmp_path / f"own-{each}").iterdir()) for each in THERE)


def steps(folder: Path, stage: str) -> int:
    """How often replicas have begun to compute a stage."""
    traces = [each.read_text() for each in folder.glob("replica-*/trace.jsonl")]
    found = [json.loads(line) for text in traces for line in text.splitlines()]
    return sum((line["event"], line["stage"]) == ("starts", stage) for line in found)


def agreed_in(work: Path) -> bool:
    """Whether the coordinator has written down that something is agreed upon."""
    return any(b"agreed" in each.read_bytes() for each in work.glob("*/coordinator/journal"))
