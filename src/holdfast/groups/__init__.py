"""Groups: failure detection, membership, ownership and succession of peers.

Used by the edge and by replicas that share their work. Pure: messages and the time come in, what to
say comes out.
"""

from holdfast.groups.membership import (
    Claim,
    Election,
    ElectionAck,
    GroupMessage,
    Heard,
    Leader,
    Members,
    NodeFailed,
)
from holdfast.groups.ownership import Ownership
from holdfast.groups.succession import (
    Bully,
    Outcome,
    Ring,
    Spread,
    Succession,
    ranked,
    succession,
    successor,
)

__all__ = [
    "Bully",
    "Claim",
    "Election",
    "ElectionAck",
    "GroupMessage",
    "Heard",
    "Leader",
    "Members",
    "NodeFailed",
    "Outcome",
    "Ownership",
    "Ring",
    "Spread",
    "Succession",
    "ranked",
    "succession",
    "successor",
]
