"""Security of an edge: a key that all nodes share, or TLS with certificates on both sides.

Loopback needs neither. Beyond it one of them is demanded; with both, the key is asked for inside of
TLS. The key says who is there, and no more: only TLS hides what is said, and guards it against
someone who can change packets under way.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from holdfast.config.addresses import is_loopback
from holdfast.config.security import Security
from holdfast.errors import InvalidArgumentError

SHORTEST_KEY: Final = 16


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a process shows and demands."""

    key: bytes = field(default=b"", repr=False)
    """Empty: none is asked for."""
    server: ssl.SSLContext | None = None
    client: ssl.SSLContext | None = None

    @property
    def is_open(self) -> bool:
        """Whether anybody is let in."""
        return not self.key and self.server is None


OPEN: Final = Credentials()
"""For loopback."""


def check_reach(host: str, credentials: Credentials) -> None:
    """Refuses to listen or to call beyond this machine with neither key nor TLS."""
    if credentials.is_open and not is_loopback(host):
        raise InvalidArgumentError(
            f"address: {host} can be reached from other machines; add [security] with token_file "
            "or token_env, or with certificate, key and authority, or use 127.0.0.1"
        )


def read_credentials(security: Security | None, folder: Path) -> Credentials:
    """What the file names, relative to its folder."""
    if security is None:
        return OPEN
    key = _read_key(security, folder)
    if security.certificate is None or security.key is None or security.authority is None:
        return Credentials(key)
    files = [folder / each for each in (security.certificate, security.key, security.authority)]
    for field_name, path in zip(("certificate", "key", "authority"), files, strict=True):
        _read(field_name, path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for context in (server, client):
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        try:
            context.load_cert_chain(files[0], files[1])
            context.load_verify_locations(files[2])
        except ssl.SSLError as error:
            raise InvalidArgumentError(
                f"security: certificate, key or authority is not right ({error.reason}); "
                "give PEM files that go together"
            ) from error
    # With a key whoever calls shows that; without, a certificate says who is there.
    server.verify_mode = ssl.CERT_REQUIRED if security.mutual or not key else ssl.CERT_OPTIONAL
    return Credentials(key, server, client)


def _read_key(security: Security, folder: Path) -> bytes:
    if security.token_env is not None:
        name = security.token_env
        key = os.environ.get(name, "").strip().encode()
        if not key:
            raise InvalidArgumentError(
                f"security: token_env: the environment has no {name}; set it to the key"
            )
    elif security.token_file is not None:
        key = _read("token_file", folder / security.token_file).strip()
    else:
        return b""
    if len(key) < SHORTEST_KEY:
        raise InvalidArgumentError(
            f"security: the key has fewer than {SHORTEST_KEY} characters; make one with "
            "`openssl rand -hex 32`"
        )
    return key


def _read(name: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidArgumentError(
            f"security: {name}: {path}: {error.strerror}; name a file that can be read"
        ) from error
