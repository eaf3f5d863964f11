"""Groups: who is alive, who takes over from the dead, who owns what.

Used by the edge and by replicas that share their work. Pure: messages and the time come in, what to
say comes out.
"""

from holdfast.protocol.groups.membership import Heard, Members
from holdfast.protocol.groups.messages import (
    Claim,
    Election,
    ElectionAck,
    GroupMessage,
    Leader,
    NodeFailed,
)
from holdfast.protocol.groups.ownership import Ownership
from holdfast.protocol.groups.succession import (
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
