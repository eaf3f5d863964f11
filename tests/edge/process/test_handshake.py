"""Both sides show that they know the key; what was overheard opens nothing."""

from __future__ import annotations

import pytest

from holdfast.edge.process.connection import NONCE, Called, Caller
from holdfast.errors import StrangerError

KEY = b"a key that nobody else has"


def nonce(number: int) -> bytes:
    return bytes([number]) * NONCE


def talk(caller: Caller, called: Called) -> None:
    hello = caller.receive(called.opening())
    assert hello is not None
    assert caller.receive(called.receive(hello)) is None


def test_both_know_each_other_afterwards() -> None:
    caller, called = Caller("s1", "c1", KEY, nonce(1)), Called("c1", KEY, nonce(2))
    talk(caller, called)
    assert caller.done
    assert called.peer == "s1"


def test_without_a_key_names_are_told_all_the_same() -> None:
    caller, called = Caller("s1", "c1", b"", nonce(1)), Called("c1", b"", nonce(2))
    talk(caller, called)
    assert called.peer == "s1"


@pytest.mark.parametrize("key", [b"", b"another key altogether, wrong"])
def test_a_caller_without_the_key_is_refused(key: bytes) -> None:
    caller, called = Caller("s1", "c1", key, nonce(1)), Called("c1", KEY, nonce(2))
    hello = caller.receive(called.opening())
    assert hello is not None
    with pytest.raises(StrangerError, match="key"):
        called.receive(hello)
    assert called.peer is None


def test_a_server_without_the_key_is_refused() -> None:
    caller = Caller("s1", "c1", KEY, nonce(1))
    false, true = Called("c1", b"guessed", nonce(2)), Called("c1", KEY, nonce(2))
    hello = caller.receive(false.opening())
    assert hello is not None
    true.receive(hello)
    # The false one can only make up its proof.
    forged = Called("c1", b"guessed", nonce(2))
    own = Caller("s1", "c1", b"guessed", nonce(1)).receive(forged.opening())
    assert own is not None
    with pytest.raises(StrangerError):
        caller.receive(forged.receive(own))
    assert not caller.done


def test_what_was_overheard_cannot_be_used_again() -> None:
    caller, called = Caller("s1", "c1", KEY, nonce(1)), Called("c1", KEY, nonce(2))
    hello = caller.receive(called.opening())
    assert hello is not None
    called.receive(hello)
    with pytest.raises(StrangerError):
        Called("c1", KEY, nonce(3)).receive(hello)


def test_a_proof_cannot_be_sent_back_to_whom_it_came_from() -> None:
    caller, called = Caller("c1", "c1", KEY, nonce(1)), Called("c1", KEY, nonce(1))
    hello = caller.receive(called.opening())
    assert hello is not None
    with pytest.raises(StrangerError):
        caller.receive(hello)


def test_another_node_than_the_one_called_is_refused() -> None:
    caller, called = Caller("s1", "c1", KEY, nonce(1)), Called("c2", KEY, nonce(2))
    hello = caller.receive(called.opening())
    assert hello is not None
    with pytest.raises(StrangerError, match="another node"):
        called.receive(hello)


@pytest.mark.parametrize("word", [b"", b"\xc1", b"\x90", b"GET / HTTP/1.1\r\n\r\n"])
def test_noise_is_no_word(word: bytes) -> None:
    with pytest.raises(StrangerError):
        Called("c1", KEY, nonce(2)).receive(word)
    with pytest.raises(StrangerError):
        Caller("s1", "c1", KEY, nonce(2)).receive(word)
