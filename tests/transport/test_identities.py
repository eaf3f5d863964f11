"""Whose certificate may call as which party."""

from __future__ import annotations

import pytest

from holdfast.errors import WireError
from holdfast.transport.security import Identities

KNOWN = Identities({"clean/1": ["clean/1", "Edge-1.example", "fe80::1"]})


@pytest.mark.parametrize("name", ["clean/1", "edge-1.EXAMPLE", "fe80::1", "FE80:0::0001"])
def test_a_good_name_in_any_spelling_is_taken(name: str) -> None:
    KNOWN.check("clean/1", name)


@pytest.mark.parametrize("name", ["", "clean/2", "edge-1", "*.example", "fe80::2", "10.0.0.1"])
def test_any_other_name_is_refused(name: str) -> None:
    with pytest.raises(WireError, match=r"one of clean/1, edge-1\.example, fe80::1"):
        KNOWN.check("clean/1", name)


def test_a_party_that_is_not_known_may_have_any_certificate() -> None:
    KNOWN.check("guest-7", "10.0.0.1")
