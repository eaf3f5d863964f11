"""A source with a hot standby: two proxies with a log each, which hold the same stream.

One of the two is the primary; each new one has a higher epoch. It proposes what comes next to the
standby, which logs it first and says so; then the primary logs it, and only what is in both logs is
shown to readers. So neither ever writes anything into its log that the other one could write
differently: one log is always the beginning of the other, and what was shown stays, whoever is
primary. A standby that hears nothing of the primary for a while takes over; the old primary, when
it hears of the higher epoch, is the standby and hands over the readings it has taken in.

Safety comes before availability: two proxies cannot tell a dead one from one that is cut off, so a
primary whose standby does not answer waits. The stream stalls, and gates downstream go on without
it, tentatively, until the other one answers or an operator, who knows that it shows nothing to
anybody, calls `go_alone`. (Digest of delay-process-correct, §3.14.)
"""

from simulator.standby.commands import Command, Persist, Show, Tell, Vow
from simulator.standby.messages import Entry, Hand, Has, Propose, Reading, TwinMessage
from simulator.standby.twin import Twin

__all__ = [
    "Command",
    "Entry",
    "Hand",
    "Has",
    "Persist",
    "Propose",
    "Reading",
    "Show",
    "Tell",
    "Twin",
    "TwinMessage",
    "Vow",
]
