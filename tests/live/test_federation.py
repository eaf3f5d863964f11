"""A stage of a running topology that moves between two participants, with real Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.deployment import Deployment, wait_for
from harness.ports import free_port
from harness.processes import spark_environment
from holdfast.federation.participant import LoadManager
from holdfast.federation.settings import Participant
from holdfast.federation.stages import StageTasks
from holdfast.tuples import Kind
from holdfast.verify.signing import Signer

NAMES = ("north", "south")


class Federated(Deployment):
    """Its replicas are started and ended by load managers."""

    def start_replica(self, name: str, *, empty: bool = False) -> None:
        pass


def _write(folder: Path, file: Path) -> None:
    """The same stage at both; to north it is dear, to south cheap. Moves last for 20 s."""
    signers = {name: Signer.make() for name in NAMES}
    ports = {name: free_port() for name in NAMES}
    for number, name in enumerate(NAMES, 1):
        other = NAMES[2 - number]
        (folder / f"{name}.key").write_text(signers[name].secret.hex())
        (folder / f"{name}.key").chmod(0o600)
        side = "buys" if name == "north" else "sells"
        (folder / f"{name}.toml").write_text(
            f"""
            address = "127.0.0.1:{ports[name]}"
            key = "{name}.key"
            folder = "{name}"
            topology = "{file.name}"
            period = "1s"
            window = "1s"
            patience = "20s"
            [cpu]
            curve = "power"
            scale = {1000 if name == "north" else 0.001}
            [partners.{other}]
            address = "127.0.0.1:{ports[other]}"
            public = "{signers[other].public.hex()}"
            [{side}.{other}]
            price = 1.0
            [tasks.clean]
            replica = "clean/{number}"
            own = {"true" if name == "north" else "false"}
            """
        )


def _start(folder: Path, name: str) -> LoadManager:
    participant = Participant.read(folder / f"{name}.toml")
    return LoadManager(participant, StageTasks(participant, master="local[1]"))


@pytest.mark.timeout(600)
def test_a_stage_moves_without_a_row_lost_doubled_or_tentative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in spark_environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    with Federated(tmp_path, window=False, sources=("a",)) as deployment:
        _write(tmp_path, deployment.file)
        with _start(tmp_path, "north") as north:
            wait_for("final rows from north", lambda: deployment.boundary > 10**15, 150)
            with _start(tmp_path, "south") as south:
                wait_for("the move", lambda: south.status()["runs"] == ["clean"], 150)
                wait_for("north to end it", lambda: deployment.status("clean/1") is None, 60)
                moved = deployment.boundary
                wait_for(
                    "final rows from south",
                    lambda: deployment.boundary > moved + 10_000_000,
                    90,
                )
                assert north.failure is None
                assert north.status()["lent"] == {"clean": "south"}
                assert Kind.TENTATIVE not in deployment.kinds()
                deployment.check(all_replicas=False)
