"""Ed25519 keys and signatures of processes.

What is signed are the very bytes that travel, so that there is nothing to bring into a canonical
form. Keys are made anew for each submission: what was said in one job means nothing in another.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

KEY_SIZE = 32
SIGNATURE_SIZE = 64
_PURPOSE = b"holdfast verify 1\0"
"""Signed too: a signature that was made for something else is none here."""


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs with a secret key; may be pickled, and must then be kept as secret."""

    secret: bytes = field(repr=False)

    @classmethod
    def make(cls) -> Signer:
        return cls(Ed25519PrivateKey.generate().private_bytes_raw())

    @property
    def public(self) -> bytes:
        """The key by which others see who has signed."""
        return self._key.public_key().public_bytes_raw()

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(_PURPOSE + data)

    @property
    def _key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.secret)


def is_signed(public: bytes, data: bytes, signature: bytes) -> bool:
    """Whether these bytes were signed with the secret that belongs to the public key."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _PURPOSE + data)
    except (InvalidSignature, ValueError):
        return False
    return True
