"""A server that others can reach has to be guarded; it says so before it starts anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.tenants.process.serving import serve


@pytest.mark.parametrize("listen", ["0.0.0.0:8080", "[::]:8080", "example.org:443"])
def test_beyond_loopback_tls_is_demanded(tmp_path: Path, listen: str) -> None:
    with pytest.raises(InvalidArgumentError, match="--certificate"):
        serve(tmp_path / "state", listen=listen)
    assert not (tmp_path / "state").exists()


def test_a_certificate_needs_its_key(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="go together"):
        serve(tmp_path / "state", certificate=tmp_path / "c.pem")
