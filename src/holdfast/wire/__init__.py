"""Messages and rows between processes, over Arrow Flight.

A party runs a `LogServer`; whoever reads of it keeps a `Link` to it, or makes single calls with a
`LogClient`.
"""

from holdfast.wire.addresses import Address
from holdfast.wire.chunks import Chunk
from holdfast.wire.client import LogClient, act, fetch
from holdfast.wire.codec import decode, encode
from holdfast.wire.errors import RefusedError, UnreachableError, WireError
from holdfast.wire.identities import Identities
from holdfast.wire.links import Link
from holdfast.wire.outbox import Outbox
from holdfast.wire.security import OPEN, Security, check_address
from holdfast.wire.server import LogServer
from holdfast.wire.service import Service

__all__ = [
    "OPEN",
    "Address",
    "Chunk",
    "Identities",
    "Link",
    "LogClient",
    "LogServer",
    "Outbox",
    "RefusedError",
    "Security",
    "Service",
    "UnreachableError",
    "WireError",
    "act",
    "check_address",
    "decode",
    "encode",
    "fetch",
]
