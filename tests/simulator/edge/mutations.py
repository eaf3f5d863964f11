"""Rules of the edge taken away by hand, one at a time; the simulator has to notice each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from holdfast.edge.machine import root as memory
from holdfast.edge.machine.backlog import Backlog
from holdfast.edge.machine.child import Child
from holdfast.edge.machine.closing import Closing, Outbox
from holdfast.edge.machine.formation import Formation, Group
from holdfast.edge.machine.heartbeats import Presence
from holdfast.edge.machine.intermediate import Merge
from holdfast.edge.machine.messages import Resume, Safe, Send
from holdfast.edge.machine.ownership import Tenure
from holdfast.edge.machine.replay import Custody, Intake
from holdfast.edge.machine.root import Root
from holdfast.edge.machine.sensor import Sensor
from holdfast.edge.machine.slots import Slot, Slots
from simulator.edge import Options, simulation
from simulator.edge.parties import Party

Patch = Any


@dataclass(frozen=True)
class Mutation:
    name: str
    apply: Callable[[Patch], None]
    family: str = "crashes"
    guarantee: str = "exactly-once"

    @property
    def options(self) -> Options:
        return Options(self.guarantee, self.family)


def known_offsets_count_again(patch: Patch) -> None:
    def init(self: Intake, slots: Any, guarantee: str, most: int) -> None:
        inner(self, slots, "at-least-once", most)

    inner = Intake.__init__
    patch.setattr(Intake, "__init__", init)


def gaps_are_jumped(patch: Patch) -> None:
    take = Intake.take

    def without(self: Intake, slot: Slot, events: Any) -> bool:
        slot.offset = max(slot.offset, events.first - 1)
        return take(self, slot, events)

    patch.setattr(Intake, "take", without)


def safe_before_it_is_replicated(patch: Patch) -> None:
    take = Child._take

    def without(self: Child, message: Any, now: int) -> Any:
        sends = take(self, message, now)
        claim = self._own.get(message.partition)
        if claim is None:
            return sends
        return [*sends, Send(message.sensor, Safe(claim.partition, claim.epoch, claim.node, 10**9))]

    patch.setattr(Child, "_take", without)


def offsets_without_panes(patch: Patch) -> None:
    """A payload says how far a slot is, and leaves out half of what is in it."""
    delta = Slot.delta

    def without(self: Slot, base: int) -> Any:
        whole = delta(self, base)
        return msgspec.structs.replace(whole, parts=whole.parts[::2])

    patch.setattr(Slot, "delta", without)


def closed_when_the_first_is_past(patch: Patch) -> None:
    def ready(self: Slots, partition: int) -> int:
        return max((slot.boundary for slot in self.of(partition)), default=0)

    patch.setattr(Slots, "ready", ready)


def closed_before_replay_is_over(patch: Patch) -> None:
    """A taker believes the boundary of events that do not follow on."""
    take = Intake.take

    def without(self: Intake, slot: Slot, events: Any) -> bool:
        slot.boundary = max(slot.boundary, events.boundary)
        return take(self, slot, events)

    patch.setattr(Intake, "take", without)


def nobody_takes_over(patch: Patch) -> None:
    patch.setattr(Tenure, "_do", lambda self, outcome: [])


def taker_does_not_ask(patch: Patch) -> None:
    patch.setattr(Custody, "take", lambda self, claim, now: [])


def panes_sent_once(patch: Patch) -> None:
    send = Outbox.send

    def without(self: Outbox, parents: Any, down: Any, failed: Any, now: int) -> Any:
        sends = send(self, parents, down, failed, now)
        for entry in self._entries.values():
            entry.next_at = 10**15
        return sends

    patch.setattr(Outbox, "send", without)


def merged_when_half_is_in(patch: Patch) -> None:
    def is_complete(self: Any, pane: Any) -> bool:
        states = self._panes.get(pane, {})
        return 2 * len(states) >= len(self._partitions)

    def release(self: Any, pane: Any) -> Any:
        return [state for _, state in self._panes[pane].values()]

    patch.setattr(Merge, "is_complete", is_complete)
    patch.setattr(Merge, "release", release)


def old_rosters_count(patch: Patch) -> None:
    patch.setattr(Group, "least_roster", lambda self, end: 0)
    patch.setattr(Merge, "refuse", lambda self, least, concerns: None)


def losses_not_counted(patch: Patch) -> None:
    skip = Slot.skip
    patch.setattr(Slot, "skip", lambda self, upto, count, until: skip(self, upto, 0, until))


def losses_by_the_printed_formula(patch: Patch) -> None:
    """s_o - r_o + 1, as the document has it, with the sign that hides two of them."""
    gone = Backlog.gone

    def printed(self: Backlog, after: int, since: int) -> Any:
        found = gone(self, after, since)
        return [replace(gap, count=max(0, gap.count - 2)) for gap in found]

    patch.setattr(Backlog, "gone", printed)


def sums_in_pairs(patch: Patch) -> None:
    """Frames decide in which order values are added."""
    from holdfast.edge.machine.queries import Paned

    add = Paned.add

    def without(self: Any, partial: Any, values: Any, keys: Any) -> Any:
        if self.query.keyed or self.query.aggregate not in ("sum", "mean"):
            return add(self, partial, values, keys)
        total = float(np.sum(values))
        n, high, low = (0, 0.0, 0.0) if partial is None else partial
        return n + len(values), high + total, low

    patch.setattr(Paned, "add", without)


def freed_panes_are_kept(patch: Patch) -> None:
    patch.setattr(Slot, "free", lambda self, query, length, until: None)


def queries_count_from_any_pane(patch: Patch) -> None:
    patch.setattr(Slot, "adopt", lambda self, query: 0)


def taken_for_freed(patch: Patch) -> None:
    """What one parent has taken is forgotten, though the root does not have it."""
    taken = Outbox.taken

    def without(self: Outbox, parent: str, message: Any) -> None:
        taken(self, parent, message)
        self._entries.pop((message.query, message.pane), None)

    patch.setattr(Outbox, "taken", without)


def no_epochs(patch: Patch) -> None:
    """No fence at the sensors: they obey whoever spoke last."""

    def obeys(self: Sensor, sender: str, message: Any, now: int) -> Any:
        if isinstance(message, Resume | Safe) and message.partition in self._routes:
            route = self._routes[message.partition]
            epoch = route.claim.epoch + (message.node != route.claim.node)
            message = replace(message, epoch=epoch)
        return receive(self, sender, message, now)

    receive = Sensor.receive
    patch.setattr(Sensor, "receive", obeys)


def reopened_panes_are_not_closed_again(patch: Patch) -> None:
    """A taker goes on with the newest pane, and leaves out what its predecessor owed."""
    opened = Closing.open

    def without(self: Closing, partition: int) -> None:
        opened(self, partition)
        ready = self._slots.ready(partition)
        for query in self._slots.queries.values():
            self._next[partition][query.id] = max(
                self._next[partition][query.id], ready - ready % query.length
            )

    patch.setattr(Closing, "open", without)


def clocks_are_believed(patch: Patch) -> None:
    """A sensor is asked to take part by the root's clock, and stamps by its own."""
    patch.setattr(Sensor, "root_time", lambda self, now: now)


def silence_says_nothing(patch: Patch) -> None:
    patch.setattr(Sensor, "rest", lambda self, now: [])


def those_who_end_are_waited_for(patch: Patch) -> None:
    patch.setattr(Root, "_leave", lambda self, group, sensor, end, now: [])


def ended_before_its_last_word_is_safe(patch: Patch) -> None:
    patch.setattr(Sensor, "is_done", property(lambda self: self._end is not None))


def windows_of_the_last_events_do_not_come(patch: Patch) -> None:
    patch.setattr(Root, "_end_windows", lambda self: [])


def what_the_ended_said_is_not_fetched(patch: Patch) -> None:
    patch.setattr(Child, "_fetch", lambda self, partitions: [])


def lives_by_the_clock(patch: Patch) -> None:
    """Nodes number their starts themselves."""
    place = Group.place

    def without(self: Group, *args: Any) -> Any:
        placed = place(self, *args)
        return replace(placed, life=placed.start)

    patch.setattr(Group, "place", without)


def the_first_does_not_wait(patch: Patch) -> None:
    """Sensors take part as they come."""
    patch.setattr(Root, "_awaited_sensors", ())


def nobody_is_asked_through_the_root(patch: Patch) -> None:
    patch.setattr(Presence, "_probe", lambda self, now, period: [])


def no_back_off(patch: Patch) -> None:
    patch.setattr(Tenure, "_back_off", lambda self, node, now: None)


def refused_events_hold_windows_up(patch: Patch) -> None:
    """Silence is only when nothing at all comes."""
    emit = Sensor.emit

    def without(self: Sensor, times: Any, values: Any, keys: Any, now: int) -> Any:
        boundary, taken = self.boundary, self.taken
        found = emit(self, times, values, keys, now)
        if len(times):
            self._quiet = None
            self.boundary = self.boundary if self.taken > taken else boundary
        return found

    patch.setattr(Sensor, "emit", without)


def a_root_forgets_what_it_freed(patch: Patch) -> None:
    """What is written down does not say which panes have been taken."""
    inner = memory.remember

    def without(root: Root) -> Any:
        found = inner(root)
        groups = [replace(g, freed=dict.fromkeys(g.freed, g.roster.origin)) for g in found.groups]
        return replace(found, groups=tuple(groups))

    patch.setattr(simulation, "remember", without)


def a_root_forgets_its_windows(patch: Patch) -> None:
    """What is written down does not have the panes of windows that are not over."""
    inner = memory.remember

    def without(root: Root) -> Any:
        found = inner(root)
        windows = {name: replace(each, panes={}) for name, each in found.windows.items()}
        return replace(found, windows=windows)

    patch.setattr(simulation, "remember", without)


def a_root_acknowledges_what_it_cannot_write(patch: Patch) -> None:
    def send(self: Party, sends: Any) -> None:
        full, self.full = self.full, 0
        inner(self, sends)
        self.full = full

    def crash(self: simulation.Simulation, name: str) -> None:
        memory = self._memory
        crash_inner(self, name)
        if self.parties[name].full:
            self._memory = memory

    inner, crash_inner = Party.send, simulation.Simulation._crash
    patch.setattr(Party, "send", send)
    patch.setattr(simulation.Simulation, "_crash", crash)


def all_must_come(patch: Patch) -> None:
    patch.setattr(Formation, "_is_enough", lambda self, plan: False)


MUTATIONS = [
    Mutation("clocks are believed", clocks_are_believed, "clocks"),
    Mutation("nodes number their lives by the clock", lives_by_the_clock, "clocks"),
    Mutation("silence says nothing", silence_says_nothing, "silence"),
    Mutation("those who end are waited for", those_who_end_are_waited_for, "silence"),
    Mutation("ended before all is safe", ended_before_its_last_word_is_safe, "silence"),
    Mutation("last windows do not come", windows_of_the_last_events_do_not_come, "history"),
    Mutation("what the ended said is lost", what_the_ended_said_is_not_fetched, "history"),
    Mutation("the first sensor does not wait", the_first_does_not_wait, "history"),
    Mutation("nobody is asked through the root", nobody_is_asked_through_the_root, "duels"),
    Mutation("no back-off", no_back_off, "duels"),
    Mutation("refused events hold windows up", refused_events_hold_windows_up, "clocks"),
    Mutation("a root forgets what it freed", a_root_forgets_what_it_freed, "roots"),
    Mutation("a root forgets its windows", a_root_forgets_its_windows, "roots"),
    Mutation("acknowledged, not written", a_root_acknowledges_what_it_cannot_write, "disk"),
    Mutation("safe before it is sent", safe_before_it_is_replicated, "busy"),
    Mutation("all must come", all_must_come, "absent"),
    Mutation("known offsets count again", known_offsets_count_again),
    Mutation("gaps are jumped", gaps_are_jumped, "noise"),
    Mutation("safe before it is replicated", safe_before_it_is_replicated),
    Mutation("offsets without their panes", offsets_without_panes),
    Mutation("closed when the first sensor is past", closed_when_the_first_is_past, "calm"),
    Mutation("closed before the replay is over", closed_before_replay_is_over),
    Mutation("nobody takes over", nobody_takes_over, "takers"),
    Mutation("a taker does not ask for events", taker_does_not_ask, "takers"),
    Mutation("closed panes sent once", panes_sent_once, "cuts"),
    Mutation("merged when half is in", merged_when_half_is_in, "calm"),
    Mutation("panes without a new sensor count", old_rosters_count, "joins"),
    Mutation("a later query has all events", queries_count_from_any_pane, "joins"),
    Mutation("losses not counted", losses_not_counted, "overflow"),
    Mutation("losses by the printed formula", losses_by_the_printed_formula, "overflow"),
    Mutation("sums in pairs", sums_in_pairs, "calm"),
    Mutation("freed panes are kept", freed_panes_are_kept, "calm"),
    Mutation("taken is freed", taken_for_freed, "tiers"),
    Mutation("a taker leaves out what was owed", reopened_panes_are_not_closed_again, "tiers"),
    Mutation("at most once, and repeated", known_offsets_count_again, "noise", "at-most-once"),
    Mutation("at least once, and gaps jumped", gaps_are_jumped, "noise", "at-least-once"),
]
