"""Gates: what several replicas publish of a stream becomes one input, bucket by bucket.

The policy of a gate is the fault-tolerance mode. Those here look at one stream and at digests:
`Vote` and `VoteLatest` outvote replicas that lie, `Sample` finds them out later, `First` and
`Latest` survive crashes. All answer to the verbs of `Gate`. What
replicas that share their work publish goes through `Order`, seat by seat (`sharing.seats`).
"""

from holdfast.protocol.gates.first import First
from holdfast.protocol.gates.gate import (
    Accuse,
    Command,
    Copy,
    Gate,
    Giveup,
    Redo,
    Release,
    Split,
    Taint,
)
from holdfast.protocol.gates.latest import Latest
from holdfast.protocol.gates.sample import Sample
from holdfast.protocol.gates.vote import Vote
from holdfast.protocol.gates.vote_latest import VoteLatest

__all__ = [
    "Accuse",
    "Command",
    "Copy",
    "First",
    "Gate",
    "Giveup",
    "Latest",
    "Redo",
    "Release",
    "Sample",
    "Split",
    "Taint",
    "Vote",
    "VoteLatest",
]
