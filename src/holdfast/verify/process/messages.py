"""Messages between replicas, coordinator and verifiers, as MessagePack.

What is told to verifiers comes in envelopes, signed. What is read here may come from anybody: it
has the types and sizes that it should have, or WireError is raised and nothing else.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Annotated, Any, TypeVar

import msgspec

from holdfast.errors import InvalidArgumentError, WireError
from holdfast.storage.chunks import DIGEST_SIZE
from holdfast.storage.signing import SIGNATURE_SIZE, Signer
from holdfast.verify.machine import Report, Standing

Paper = TypeVar("Paper")


def write_paper(path: Path, paper: object) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(paper)))


def read_paper(path: Path, kind: type[Paper], remedy: str, wrong: str) -> Paper:
    """What an error says: `remedy` of a file that cannot be read, `wrong` of another one."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise InvalidArgumentError(f"{path}: {error.strerror}; {remedy}") from error
    except msgspec.MsgspecError as error:
        raise InvalidArgumentError(f"{path}: {error}; {wrong}") from error


MAX_CALL = 4 << 20
"""Bytes of a call that a verifier takes."""
MAX_DATA = 64 << 10
"""Bytes of a chunk that is told raw."""
MAX_BODY = MAX_DATA + (8 << 10)
MAX_ENVELOPES = 256
"""In one call."""
MAX_PATIENCE = 60.0
MAX_NAME = 255
MAX_PATH = 1024
MAX_ROWS = 2**62


class _Form(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """How something looks on the wire."""


class Reported(_Form, tag="report"):
    report: Report


class Started(_Form, tag="start"):
    """A replica starts on a host."""

    job: str
    host: str


class Broken(_Form, tag="broken"):
    """Somebody's copy of a slice does not have the digest that it should have."""

    job: str
    stage: str
    slice: int
    maker: int
    number: int = 0
    """Another one each time: the next copy may be broken too, and to say that is another word."""


class Gone(_Form, tag="gone"):
    """The process of a replica has ended. `number` goes up from one word of the coordinator on a
    replica to the next, so that nobody can say it again later."""

    job: str
    replica: int
    number: int
    over_quota: str = ""
    """How much it took of the storage, if it was ended for that."""


class Back(_Form, tag="back"):
    """A replica is started again, or elsewhere."""

    job: str
    replica: int
    number: int
    hosts: tuple[str, ...] = ()
    """All where it was to run so far and is to run now, so that one who has missed a word knows
    them too; none where hosts are shared."""


Telling = Reported | Started | Broken | Gone | Back


class Envelope(_Form):
    """Something told, and who says so."""

    sender: int
    """The number of a replica, or 0 for the coordinator."""
    body: Annotated[bytes, msgspec.Meta(max_length=MAX_BODY)]
    signature: Annotated[bytes, msgspec.Meta(min_length=SIGNATURE_SIZE, max_length=SIGNATURE_SIZE)]


Envelopes = Annotated[tuple[Envelope, ...], msgspec.Meta(max_length=MAX_ENVELOPES)]


class Asked(_Form):
    """How does the job stand, if not as it did in this version?"""

    version: int
    patience: Annotated[float, msgspec.Meta(ge=0, le=MAX_PATIENCE)] = 0.0
    """Seconds to wait for something new before the answer is that there is nothing."""
    caller: int | None = None
    """The number of a replica, or 0 for the coordinator; None for anybody else."""
    proof: Annotated[bytes, msgspec.Meta(max_length=SIGNATURE_SIZE)] = b""
    """Its signature of `waiting_words`."""


class Answer(_Form):
    version: int
    standing: Standing | None
    """None if it is as it was."""


def seal(sender: int, telling: Telling, signer: Signer) -> Envelope:
    body = encode(telling)
    if len(body) > MAX_BODY:
        raise WireError(f"a report of {len(body)} bytes is too long; give shorter names and paths")
    return Envelope(sender, body, signer.sign(body))


def open_envelope(envelope: Envelope) -> Telling:
    """What is in it. Whether its sender has said so is another question."""
    telling: Telling = decode(envelope.body, Telling)
    if isinstance(telling, Reported):
        _check(telling.report)
    elif isinstance(telling, Started) and not 0 < len(telling.host) <= MAX_NAME:
        raise WireError("a host's name is empty or too long")
    return telling


def waiting_words(job: str) -> bytes:
    """What a caller signs to have places of its own to wait at the verifiers of a job."""
    return b"waits for news of " + job.encode()


def encode(value: Any) -> bytes:
    return msgspec.msgpack.encode(value)


def decode(data: bytes, form: Any) -> Any:
    """Raises WireError for whatever is not of this form."""
    try:
        return msgspec.msgpack.decode(data, type=form)
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError, MemoryError) as error:
        raise WireError(f"a message cannot be read: {error}"[:300]) from None


def _check(report: Report) -> None:
    if report.data is not None and len(report.data) > MAX_DATA:
        raise WireError(f"a chunk of {len(report.data)} bytes is too large to be told raw")
    if len(report.digest) != DIGEST_SIZE or len(report.basis) != DIGEST_SIZE:
        raise WireError(f"a digest or basis does not have {DIGEST_SIZE} bytes")
    if not 0 < len(report.host) <= MAX_NAME:
        raise WireError("a host's name is empty or too long")
    if report.rows > MAX_ROWS:
        raise WireError(f"{report.rows} rows are too many")
    if len(report.path) > MAX_PATH:
        raise WireError(f"a path of {len(report.path)} characters is too long")
    path = PurePosixPath(report.path)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in report.path:
        raise WireError("a path leads out of the storage")
