"""A small job with its keys, reports of it, and verifiers of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.storage.signing import Signer
from holdfast.verify.machine import Model, Quorum, Report, Rules, Run, basis_of
from holdfast.verify.process.client import Witness
from holdfast.verify.process.job_spec import Charter
from holdfast.verify.process.messages import Envelope, Reported, Telling, seal
from tests.transport.parties import wait_for

QUORUM = Quorum(Model.BYZANTINE)
SIGNERS = {number: Signer.make() for number in (0, *QUORUM.numbers)}
ROOT = basis_of({})
ROOT_PATH = Path(__file__).parents[3]


def charter(**rules: object) -> Charter:
    return Charter(
        "bill",
        {"hourly": (), "total": ("hourly",)},
        2,
        Model.BYZANTINE,
        1,
        Rules(**rules),  # type: ignore[arg-type]
        {number: signer.public for number, signer in SIGNERS.items()},
    )


def digest(word: str) -> bytes:
    return word.encode().ljust(32, b".")


def report(
    replica: int,
    word: str = "x",
    *,
    stage: str = "hourly",
    slice: int = 0,
    job: str = "bill",
    of: bytes = ROOT,
    path: str | None = None,
    seq: int | None = None,
) -> Report:
    return Report(
        job,
        stage,
        Run(),
        slice,
        replica,
        f"host{replica}",
        path or f"{job}/{replica}/{stage}/0-0/{slice}-{word}.arrow",
        digest(word),
        3,
        of,
        seq,
    )


def told(sender: int, telling: Telling | Report) -> Envelope:
    telling = Reported(telling) if isinstance(telling, Report) else telling
    return seal(sender, telling, SIGNERS[sender])


def reports_of_a_stage(words: str = "xxx", stage: str = "hourly", of: bytes = ROOT) -> list[Report]:
    """One letter for each replica, for both slices."""
    return [
        report(replica, word, stage=stage, slice=number, of=of)
        for replica, word in enumerate(words, 1)
        for number in (0, 1)
    ]


def witness(replica: int, *addresses: str, timeout: float = 20.0) -> Witness:
    return Witness("bill", replica, SIGNERS[replica], addresses, timeout=timeout)


class VerifierProcess:
    """A verifier in a process of its own, to be killed and started again."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self._options = options
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "holdfast.verify.process.server"]
        command += [str(self.folder / "charter.json"), str(self.folder / "verifier")]
        self.process = subprocess.Popen(
            [*command, *self._options],
            cwd=ROOT_PATH,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stderr=subprocess.DEVNULL,
        )

    @property
    def address(self) -> str:
        path = self.folder / "verifier" / "address"
        wait_for(path.exists, 60)
        return path.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def verifier_process(folder: Path, *options: str, **rules: object) -> Iterator[VerifierProcess]:
    """`options`: of its command line."""
    folder.mkdir(parents=True, exist_ok=True)
    charter(**rules).write(folder / "charter.json")
    process = VerifierProcess(folder, *options)
    try:
        yield process
    finally:
        process.kill()
