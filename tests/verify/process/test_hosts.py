"""What a host is called."""

from __future__ import annotations

import socket

import pytest

from holdfast.verify.process.placement import HOST, this_host


def test_a_host_is_called_what_it_is_told_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HOST, raising=False)
    monkeypatch.delenv("SPARK_LOCAL_HOSTNAME", raising=False)
    assert this_host() == socket.gethostname()
    monkeypatch.setenv("SPARK_LOCAL_HOSTNAME", "worker-3")
    assert this_host() == "worker-3"
    monkeypatch.setenv(HOST, "rack-7")
    assert this_host() == "rack-7"
