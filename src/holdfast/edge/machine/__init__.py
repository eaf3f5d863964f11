"""State machines of the edge: sensors, children, intermediates and the root.

Four machines, each with `receive(sender, message, now)`, `wake(now)` and `due(now)`: `Sensor`,
`Child`, `Intermediate`, `Root`. Whoever drives them carries the messages.
"""

from holdfast.edge.machine.child import Child, ChildOptions
from holdfast.edge.machine.formation import GroupPlan
from holdfast.edge.machine.heartbeats import BeatOptions
from holdfast.edge.machine.intermediate import Intermediate, IntermediateOptions
from holdfast.edge.machine.messages import Guarantee, Message, Query, Send
from holdfast.edge.machine.queries import Window
from holdfast.edge.machine.root import Root, RootOptions
from holdfast.edge.machine.sensor import Sensor, SensorOptions

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
