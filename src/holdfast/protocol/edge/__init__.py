"""Windows near the sensors: what children aggregate of events is replicated among them, passed up
by intermediates and made into windows by the root.

Four machines, each with `receive(sender, message, now)`, `wake(now)` and `due(now)`: `Sensor`,
`Child`, `Intermediate`, `Root`. Whoever drives them carries the messages.
"""

from holdfast.protocol.edge.child import Child, ChildOptions
from holdfast.protocol.edge.formation import GroupPlan
from holdfast.protocol.edge.intermediate import Intermediate, IntermediateOptions
from holdfast.protocol.edge.messages import Guarantee, Message, Query, Send
from holdfast.protocol.edge.presence import BeatOptions
from holdfast.protocol.edge.root import Root, RootOptions
from holdfast.protocol.edge.sensor import Sensor, SensorOptions
from holdfast.protocol.edge.windows import Window

__all__ = [
    "BeatOptions",
    "Child",
    "ChildOptions",
    "GroupPlan",
    "Guarantee",
    "Intermediate",
    "IntermediateOptions",
    "Message",
    "Query",
    "Root",
    "RootOptions",
    "Send",
    "Sensor",
    "SensorOptions",
    "Window",
]
