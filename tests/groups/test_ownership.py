"""Claims: whoever has seen the same ones agrees."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.groups import Claim, Ownership

HOME = (Claim(0, 1, "a"), Claim(1, 1, "b"), Claim(2, 1, "a"))

claims = st.lists(
    st.builds(Claim, st.integers(0, 2), st.integers(1, 4), st.sampled_from("abc")), max_size=12
)


@given(claims, st.randoms())
def test_order_and_repetition_of_claims_do_not_matter(seen: list[Claim], random: object) -> None:
    one, other = Ownership(HOME), Ownership(HOME)
    for claim in seen:
        one.offer(claim)
    again = seen * 2
    random.shuffle(again)
    for claim in again:
        other.offer(claim)
    assert one.claims == other.claims


def test_two_takers_are_one_when_they_talk() -> None:
    b, c = Ownership(HOME), Ownership(HOME)
    of_b, of_c = b.take(0, "b"), c.take(0, "c")
    b.offer(of_c)
    c.offer(of_b)
    assert b.owner(0) == c.owner(0) == "c"


def test_an_old_claim_is_no_news() -> None:
    table = Ownership(HOME)
    taken = table.take(0, "b")
    assert taken == Claim(0, 2, "b")
    assert not table.offer(Claim(0, 1, "c"))
    assert not table.offer(taken)
    assert table.of("a") == (2,)
    assert table.homes_of("a") == (0, 2)
    assert table.home(0) == "a"


def test_a_partition_that_nobody_has_heard_of_is_none() -> None:
    assert not Ownership(HOME).offer(Claim(9, 5, "a"))
