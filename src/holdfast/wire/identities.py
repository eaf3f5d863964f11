"""Whose certificate may call as which party.

Of a client's certificate Flight tells the server one name: the first alternative name, or the
common name if there is no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import ip_address

from holdfast.wire.errors import WireError

__all__ = ["Identities"]


class Identities:
    """The names that the certificates of known parties have. Anybody may call as somebody else."""

    def __init__(self, names: Mapping[str, Iterable[str]]) -> None:
        """`names`: of the certificates that are good for each party."""
        self._names = {party: frozenset(map(_plain, good)) for party, good in names.items()}

    def check(self, party: str, certificate: str) -> None:
        """Refuse a caller whose certificate is not good for the party that it says it is."""
        good = self._names.get(party)
        if good is not None and _plain(certificate) not in good:
            raise WireError(
                f"the certificate of {certificate or 'nobody'} may not call as {party}; let its "
                f"first alternative name be one of {', '.join(sorted(good))}"
            )


def _plain(name: str) -> str:
    """In one spelling: addresses have several, and in names of hosts case does not count."""
    try:
        return str(ip_address(name))
    except ValueError:
        return name.lower()
