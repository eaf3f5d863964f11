"""Tokens, TLS and client certificates of servers and callers.

Loopback needs none of it. Beyond it, both TLS and a token are demanded.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from holdfast.errors import InvalidArgumentError, WireError

# Whose certificate may call as which party.
#
# Of a client's certificate Flight tells the server one name: the first alternative name, or the
# common name if there is no other.


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


@dataclass(frozen=True, slots=True)
class Security:
    """What a process shows and demands. Keys and certificates are PEM."""

    token: str | None = field(default=None, repr=False)
    certificate: bytes | None = field(default=None, repr=False)
    key: bytes | None = field(default=None, repr=False)
    authority: bytes | None = field(default=None, repr=False)
    """The certificate of whoever signs the others'. Who has it speaks TLS."""
    mutual: bool = False
    """Whether a server demands certificates of its clients."""

    def __post_init__(self) -> None:
        if self.token is not None and not (
            self.token and self.token.isascii() and self.token.isprintable()
        ):
            raise InvalidArgumentError(
                "security: the token is empty or has characters beyond printable ASCII; "
                "write one line of letters and digits, as `openssl rand -hex 32` makes it"
            )
        if (self.certificate is None) != (self.key is None):
            missing = "key" if self.key is None else "certificate"
            raise InvalidArgumentError(
                f"security: {missing} is missing; a certificate and its key go together"
            )
        if self.certificate is not None and self.authority is None:
            raise InvalidArgumentError(
                "security: authority is missing; give the certificate of whoever signed "
                "`certificate`, or itself if nobody else did"
            )
        if self.mutual and self.certificate is None:
            raise InvalidArgumentError(
                "security: mutual needs certificate, key and authority; give them, "
                "or set mutual = false"
            )

    @classmethod
    def read(
        cls,
        *,
        token_file: str | Path | None = None,
        token_env: str | None = None,
        certificate: str | Path | None = None,
        key: str | Path | None = None,
        authority: str | Path | None = None,
        mutual: bool = False,
    ) -> Security:
        """From files, and the token from a file or a variable of the environment."""
        if token_file is not None and token_env is not None:
            raise InvalidArgumentError("security: give token_file or token_env, not both")
        token = None
        if token_env is not None:
            token = os.environ.get(token_env, "").strip()
            if not token:
                raise InvalidArgumentError(
                    f"security: token_env: the environment has no {token_env}; set it to the token"
                )
        elif token_file is not None:
            token = _read("token_file", token_file).decode("utf-8", "replace").strip()
        return cls(
            token,
            None if certificate is None else _read("certificate", certificate),
            None if key is None else _read("key", key),
            None if authority is None else _read("authority", authority),
            mutual,
        )

    @property
    def tls(self) -> bool:
        return self.authority is not None

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """What a client says of itself with every call."""
        return [] if self.token is None else [(b"authorization", f"Bearer {self.token}".encode())]

    def admits(self, authorization: str | None) -> bool:
        """Whether a call with this header may come in; takes as long whatever is wrong with it."""
        if self.token is None:
            return True
        said = (authorization or "").encode("utf-8", "surrogateescape")
        return hmac.compare_digest(said, f"Bearer {self.token}".encode())


OPEN = Security()
"""For loopback: no token, no TLS."""


def check_address(host: str, security: Security) -> None:
    """Refuses to serve or to call beyond this machine without TLS and a token."""
    if _is_loopback(host) or (security.tls and security.token is not None):
        return
    missing = [
        *([] if security.token is not None else ["a token (token_file or token_env)"]),
        *([] if security.tls else ["TLS (certificate, key and authority)"]),
    ]
    raise InvalidArgumentError(
        f"address: {host or 'every address'} can be reached from other machines, and "
        f"{' and '.join(missing)} is missing; add it under [security], or use 127.0.0.1"
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _read(name: str, path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidArgumentError(
            f"security: {name}: {path}: {error.strerror}; name a file that can be read"
        ) from error
