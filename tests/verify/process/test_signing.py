from __future__ import annotations

import pickle

from holdfast.storage.signing import KEY_SIZE, SIGNATURE_SIZE, Signer, is_signed


def test_what_is_signed_is_known_to_be() -> None:
    signer = Signer.make()
    signature = signer.sign(b"word")
    assert (len(signer.public), len(signature)) == (KEY_SIZE, SIGNATURE_SIZE)
    assert is_signed(signer.public, b"word", signature)
    assert is_signed(pickle.loads(pickle.dumps(signer)).public, b"word", signature)


def test_what_is_not_signed_is_known_not_to_be() -> None:
    signer, other = Signer.make(), Signer.make()
    signature = signer.sign(b"word")
    assert not is_signed(signer.public, b"other", signature)
    assert not is_signed(other.public, b"word", signature)
    assert not is_signed(signer.public, b"word", signature[:-1] + bytes([signature[-1] ^ 1]))
    assert not is_signed(signer.public, b"word", b"")
    assert not is_signed(b"no key", b"word", signature)


def test_a_secret_is_not_shown() -> None:
    signer = Signer.make()
    assert signer.secret.hex() not in repr(signer)
    assert repr(signer.secret) not in repr(signer)
