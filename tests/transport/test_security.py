"""Who may talk to whom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.transport.client import LogClient
from holdfast.transport.links import Link
from holdfast.transport.security import Security, check_address
from holdfast.transport.server import LogServer
from tests.transport.parties import Recorder

SECURED = Security("token", b"certificate", b"key", b"authority")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "[::1]", "localhost"])
def test_loopback_needs_nothing(host: str) -> None:
    check_address(host, Security())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "", "edge-1", "localhost.evil.org"])
def test_anything_else_needs_tls_and_a_token(host: str) -> None:
    check_address(host, SECURED)
    for security, missing in [
        (Security(), "a token .* and TLS .* is missing"),
        (Security("token"), "TLS .* is missing"),
        (Security(authority=b"authority"), "a token .* is missing"),
    ]:
        with pytest.raises(InvalidArgumentError, match=rf"{missing}; add .* use 127\.0\.0\.1"):
            check_address(host, security)


def test_nobody_serves_or_calls_beyond_loopback_in_the_open() -> None:
    beyond = ("0.0.0.0", 1)
    with pytest.raises(InvalidArgumentError, match="other machines"):
        LogServer(beyond, None, Recorder())
    with pytest.raises(InvalidArgumentError, match="other machines"):
        Link("me", "you", beyond, None, lambda *_: None)
    with pytest.raises(InvalidArgumentError, match="other machines"):
        LogClient(beyond)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"token": ""}, "token is empty"),
        ({"token": "two\nlines"}, "token is empty or has"),
        ({"token": "größe"}, "token is empty or has"),
        ({"certificate": b"c", "authority": b"a"}, "key is missing"),
        ({"key": b"k", "authority": b"a"}, "certificate is missing"),
        ({"certificate": b"c", "key": b"k"}, "authority is missing"),
        ({"mutual": True, "authority": b"a"}, "mutual needs"),
    ],
)
def test_halves_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"security: .*{message}"):
        Security(**fields)


def test_the_token_is_compared_whole() -> None:
    security = Security("secret")
    assert security.admits("Bearer secret")
    for said in [None, "", "secret", "Bearer", "Bearer secre", "Bearer secret ", "bearer secret"]:
        assert not security.admits(said)
    assert not security.admits("Bearer \udcff")
    assert Security().admits(None)


def test_secrets_are_not_shown() -> None:
    assert "token" not in repr(SECURED)
    assert "key" not in repr(SECURED)


def test_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("token", "certificate", "key", "authority"):
        (tmp_path / name).write_text(name + "\n")
    files = {name: tmp_path / name for name in ("certificate", "key", "authority")}
    read = Security.read(token_file=tmp_path / "token", **files, mutual=True)
    assert read == Security("token", b"certificate\n", b"key\n", b"authority\n", mutual=True)
    monkeypatch.setenv("HOLDFAST_TOKEN", " token\n")
    assert Security.read(token_env="HOLDFAST_TOKEN") == Security("token")
    monkeypatch.delenv("HOLDFAST_TOKEN")
    with pytest.raises(InvalidArgumentError, match=r"token_env: .* no HOLDFAST_TOKEN; set it"):
        Security.read(token_env="HOLDFAST_TOKEN")
    with pytest.raises(InvalidArgumentError, match="not both"):
        Security.read(token_env="HOLDFAST_TOKEN", token_file="token")
    with pytest.raises(InvalidArgumentError, match=r"key: .*gone: No such file.*; name a file"):
        Security.read(key=tmp_path / "gone")
