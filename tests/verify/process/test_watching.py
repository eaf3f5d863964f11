"""What need not be computed any more is ended, and nothing else."""

from __future__ import annotations

from threading import Condition, Event
from typing import Any

from holdfast.errors import StoreUnavailableError
from holdfast.verify.process.replica_process import Watcher

DEADLINE = 60.0


class Verifiers:
    """They say how the job stands, in one word."""

    def __init__(self) -> None:
        self.word = "well"
        self.asked = 0
        self._change = Condition()

    def say(self, word: str) -> None:
        with self._change:
            self.word = word
            self._change.notify_all()

    def consult(self) -> Any:
        with self._change:
            self.asked += 1
            self._change.notify_all()
            if self.word == "nothing":
                raise StoreUnavailableError("nobody answers")
            return self.word

    def await_news(self, seconds: float) -> None:
        with self._change:
            known = self.word
            self._change.wait_for(lambda: self.word != known, seconds)

    def wait_asked(self, times: int) -> None:
        with self._change:
            assert self._change.wait_for(lambda: self.asked >= times, DEADLINE)


def is_ill(word: Any) -> bool:
    return bool(word == "ill")


def test_what_is_stale_is_ended_until_it_has_ended() -> None:
    verifiers = Verifiers()
    ended: list[str] = []
    twice = Event()

    def cancel() -> None:
        ended.append(verifiers.word)
        if len(ended) == 2:
            twice.set()

    with Watcher(verifiers, cancel) as watcher:
        with watcher.over(is_ill) as watched:
            verifiers.wait_asked(1)
            assert not watched.is_stale
            verifiers.say("ill")
            assert twice.wait(DEADLINE)
            assert watched.is_stale
        before = len(ended)
        with watcher.over(lambda word: False) as watched:
            verifiers.wait_asked(verifiers.asked + 2)
            assert not watched.is_stale
        verifiers.say("done")
    assert len(ended) == before


def test_verifiers_that_do_not_answer_end_nothing() -> None:
    verifiers = Verifiers()
    verifiers.word = "nothing"
    ended = Event()
    with Watcher(verifiers, ended.set) as watcher, watcher.over(is_ill):
        verifiers.wait_asked(2)
        assert not ended.is_set()
        verifiers.say("ill")
        assert ended.wait(DEADLINE)
        verifiers.say("done")
