"""All inputs of a replica: what is known of them, and what that says about reading them."""

from __future__ import annotations

from holdfast.pipeline.machine.inputs import Inputs
from holdfast.pipeline.machine.messages import Feed, Heartbeat, Progress, Stable, Subscribe, Vitals
from holdfast.pipeline.machine.monitor import Monitor
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.machine.subscription import SwitchIntake
from holdfast.pipeline.machine.tuples import Segment

REPLICAS = {"a": ("x", "y"), "b": ("z",)}


def make() -> Inputs:
    intakes = {name: SwitchIntake(name, of, grace=20) for name, of in REPLICAS.items()}
    return Inputs(intakes, Monitor(REPLICAS, period=10, missed=2))


def tell(inputs: Inputs, sender: str, stream: str, state: State, end: int = 0) -> bool:
    _, turns = inputs.take_vitals(sender, Vitals({stream: Progress(state, end)}, 0), 0)
    return turns


def test_a_stream_is_as_good_as_its_best_replica() -> None:
    inputs = make()
    tell(inputs, "x", "a", State.UP_FAILURE)
    tell(inputs, "y", "a", State.STABLE)
    assert inputs.best() == {"a": State.STABLE, "b": State.FAILURE}


def test_whom_to_read_is_thought_about_when_a_state_changes() -> None:
    inputs = make()
    assert tell(inputs, "x", "a", State.STABLE)
    assert not tell(inputs, "x", "a", State.STABLE, end=100)
    assert not tell(inputs, "stranger", "a", State.STABLE)


def test_beats_acknowledge_what_is_safe_and_nothing_while_that_is_not_known() -> None:
    inputs = make()
    unknown = [send.message for send in inputs.wake(0, None)]
    assert [beat.acks for beat in unknown if isinstance(beat, Heartbeat)] == [{}, {}, {}]
    tell(inputs, "z", "b", State.STABLE)
    beats = {send.to: send.message for send in inputs.wake(10, 0)}
    assert isinstance(beats["z"], Heartbeat)
    assert beats["z"].acks == {"b": 0}


def test_all_are_read_once_the_ends_that_are_known_are_near() -> None:
    inputs = make()
    tell(inputs, "x", "a", State.STABLE, end=100)
    assert not inputs.are_read(behind=1000)  # nobody has said where b ends
    tell(inputs, "z", "b", State.STABLE, end=50)
    assert inputs.are_read(behind=100)
    assert not inputs.are_read(behind=99)
    assert inputs.are_read(behind=99, enough=0)  # the other is not so far


def test_what_nobody_can_be_asked_for_is_not_kept() -> None:
    inputs = make()
    tell(inputs, "x", "a", State.STABLE)
    assert not inputs.are_kept
    tell(inputs, "z", "b", State.STABLE)
    assert inputs.are_kept


def test_a_feed_of_a_stream_that_is_no_input_says_nothing() -> None:
    inputs = make()
    feed = Feed("other", 0, 0, (Stable(Segment(0, 10, ())),))
    assert inputs.take_feed("x", feed, 0) == ([], [], False)


def test_a_feed_is_news_once() -> None:
    inputs = make()
    tell(inputs, "x", "a", State.STABLE)
    intake = inputs.intakes["a"]
    [asked] = intake.read_on(inputs.states("a"), inputs.monitor.ends("a"), 0)
    assert isinstance(asked.message, Subscribe)
    feed = Feed("a", asked.message.subscription, 0, (Stable(Segment(0, 10, ())),))
    news, sends, turns = inputs.take_feed("x", feed, 1)
    assert (news, sends, turns) == (list(feed.items), [], False)
    assert inputs.take_feed("x", feed, 2) == ([], [], False)


def test_doubt_forgets_who_was_done_where_something_fails() -> None:
    inputs = make()
    tell(inputs, "x", "a", State.STABLE)
    tell(inputs, "z", "b", State.UP_FAILURE)
    for intake in inputs.intakes.values():
        intake.caught_up |= {"x", "z"}
    inputs.doubt()
    assert inputs.intakes["a"].caught_up == {"x", "z"}
    assert inputs.intakes["b"].caught_up == set()


def test_a_jump_gives_up_what_is_before_it() -> None:
    inputs = make()
    assert list(inputs.jump(40)) == []
    assert {intake.position for intake in inputs.intakes.values()} == {40}
