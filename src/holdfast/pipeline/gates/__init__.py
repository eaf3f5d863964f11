"""Gates: what several replicas publish of a stream becomes one input, bucket by bucket.

The policy of a gate is the fault-tolerance mode. Those here look at one stream and at digests:
`Vote` and `VoteLatest` outvote replicas that lie, `Sample` finds them out later, `First` and
`Latest` survive crashes. All answer to the verbs of `Gate`. What
replicas that share their work publish goes through `Order`, seat by seat (`sharing.seats`).
"""

from holdfast.pipeline.gates.first import First
from holdfast.pipeline.gates.gate import (
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
from holdfast.pipeline.gates.latest import Latest
from holdfast.pipeline.gates.sample import Sample
from holdfast.pipeline.gates.vote import Vote
from holdfast.pipeline.gates.vote_latest import VoteLatest

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
