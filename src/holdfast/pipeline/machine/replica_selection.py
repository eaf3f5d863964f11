"""Selection of the upstream replicas to read: the switching tables as functions.

The consistency manager asks again whenever a state changes, once per input stream. The first aim
is new data, the second corrections: a background replica is read only while the current one has
nothing but previews and the other one corrects. (Digest of delay-process-correct, §3.4.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from holdfast.pipeline.machine.states import State


@dataclass(frozen=True, slots=True)
class Choice:
    """The replica that is read for new data and, if any, the one read for corrections."""

    current: str
    background: str | None = None


def choose_basic(current: str, states: Mapping[str, State]) -> str:
    """The replica to read, without a background one. Among equals the first, but a present one is
    left only for a better one."""
    state = _state_of(current, states)
    for better in (State.STABLE, State.UP_FAILURE):
        if state <= better:
            return current
        for name, other in states.items():
            if other is better:
                return name
    return current


def choose(choice: Choice, states: Mapping[str, State], ends: Mapping[str, int]) -> Choice:
    """What to read now, after all steps of the table that lead there.

    `ends`: the stable boundary of each replica. Of several candidates in the same state the one
    with the highest takes over, then the first of `states`; none ever displaces a present one in
    the same state, so that a flapping replica moves its reader away and not to and fro.
    """
    choice = _normal(choice, states)
    while (after := _normal(_step(choice, states, ends), states)) != choice:
        choice = after
    return choice


def row(choice: Choice, states: Mapping[str, State]) -> int:
    """The row of the table, 1 to 11, that says what to do next."""
    choice = _normal(choice, states)
    current = _state_of(choice.current, states)
    background = _state_of(choice.background, states)
    others = {states[name] for name in _others(choice, states)}
    if current is State.STABLE:
        return 1
    if State.STABLE in others:
        return 2
    if current is State.UP_FAILURE:
        if background is State.STABILIZATION:
            return 3
        return 5 if State.STABILIZATION in others else 4
    if current is State.STABILIZATION:
        if background is State.STABILIZATION:
            return 8
        return 7 if State.UP_FAILURE in others else 6
    if State.UP_FAILURE in others:
        return 9
    return 10 if State.STABILIZATION in others else 11


def _step(choice: Choice, states: Mapping[str, State], ends: Mapping[str, int]) -> Choice:
    """What the row that applies says."""

    def best(state: State) -> str:
        candidates = (name for name in _others(choice, states) if states[name] is state)
        return max(candidates, key=lambda name: ends.get(name, 0))

    match row(choice, states):
        case 2:
            return Choice(best(State.STABLE))
        case 3:
            return choice
        case 5:
            return Choice(choice.current, best(State.STABILIZATION))
        case 7:
            return Choice(best(State.UP_FAILURE), choice.current)
        case 8:
            assert choice.background is not None
            both = sorted((choice.current, choice.background))
            return Choice(max(both, key=lambda name: ends.get(name, 0)))
        case 9:
            return Choice(best(State.UP_FAILURE))
        case 10:
            return Choice(best(State.STABILIZATION))
        case _:
            return Choice(choice.current)


def _normal(choice: Choice, states: Mapping[str, State]) -> Choice:
    """The same two with the better one as the current one."""
    if choice.background is None or choice.background == choice.current:
        return Choice(choice.current)
    if _state_of(choice.background, states) < _state_of(choice.current, states):
        return Choice(choice.background, choice.current)
    return choice


def _state_of(name: str | None, states: Mapping[str, State]) -> State:
    return State.FAILURE if name is None else states.get(name, State.FAILURE)


def _others(choice: Choice, states: Mapping[str, State]) -> Iterator[str]:
    return (name for name in states if name not in (choice.current, choice.background))
