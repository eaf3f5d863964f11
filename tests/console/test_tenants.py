"""Tenants' streams on the page, asked of a real server."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from harness.ports import free_port
from holdfast.console import tenants
from holdfast.console.panels import Mark, Moment, Panel, Table
from holdfast.console.tenants import COLUMNS, Tenancy, tenant_panels
from holdfast.errors import InvalidArgumentError
from holdfast.tenants.process.client import Client
from tests.tenants.process.rig import SHARED, derived, simple
from tests.tenants.process.test_client import served
from tests.tenants.process.test_http import Site


def table_of(panel: Panel) -> Table:
    found = panel.ask()
    assert isinstance(found, Table)
    return found


def token_file(folder: Path, site: Site, name: str) -> Path:
    path = folder / f"{name}.token"
    path.write_text(site.service.registry.add(name) + "\n")
    return path


def test_streams_of_two_tenants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path)
    files = [token_file(tmp_path, site, name) for name in ("ann", "ben")]
    with served(site) as url:
        ann, ben = (Client(url, file.read_text().strip()) for file in files)
        [panel] = tenant_panels(Tenancy(url, files))
        assert table_of(panel).note == "no tenant has a stream yet"
        ann.put("roof", {"streams": {"air": {**simple(celsius="number"), **SHARED}}})
        half = derived({"a": "ann/roof/air"}, {"n": "1.0 / a.celsius"})
        ben.put("chill", {"streams": {"half": half}})
        assert [row[2] for row in table_of(panel).rows] == ["no update yet"] * 2
        now = int(time.time() * 1e6)
        ann.publish("ann/roof/air", {"celsius": -4.0}, timestamp=now)
        site.settle()
        table = table_of(panel)
        assert table.columns == COLUMNS
        assert table.rows == [
            ["ann/roof/air", "simple", "celsius -4", Moment(now / 1000), 1, "", ""],
            ["ben/chill/half", "composite", "n -0.25", Moment(now / 1000), 0, "", ""],
        ]
        ann.publish("ann/roof/air", {"celsius": 0.0}, timestamp=now + 1)
        site.settle()
        problem = table_of(panel).rows[1][-1]
        assert isinstance(problem, Mark)
        assert "no number that can be stored" in str(problem.text)
        ann.publish("ann/roof/air", {"celsius": 2.0}, timestamp=now + 2)
        site.settle()
        assert table_of(panel).rows[1][-1] == "", "what is over is no problem"
        # Who has no time for all asks about the rest the next time.
        monkeypatch.setattr(tenants, "BUDGET", -1)
        ben.put("more", {"streams": {"wind": simple(kmh="number")}})
        assert table_of(panel).rows[2] == ["ben/more/wind", "", "not asked yet"]
    note = table_of(panel).note
    assert note == "the server of the tenants does not answer; see whether `holdfast serve` runs"


def test_a_token_that_is_not_known_is_told(tmp_path: Path) -> None:
    site = Site(tmp_path)
    (tmp_path / "token").write_text("not-a-token")
    with served(site) as url:
        [panel] = tenant_panels(Tenancy(url, [tmp_path / "token"]))
        assert "token: is missing or not known" in table_of(panel).note


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("127.0.0.1:8080", "write http://127.0.0.1:8080"),
        ("ftp://127.0.0.1:8080", "is no address"),
        ("http://[", "is no address"),
        ("http://example.com:8080", "write https://"),
    ],
)
def test_addresses_that_make_no_sense_or_tell_the_token(
    url: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("a-token")
    with pytest.raises(InvalidArgumentError, match=said):
        tenant_panels(Tenancy(url, [tmp_path / "token"]))


def test_tokens_are_needed(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(InvalidArgumentError, match="--tenant-token-file"):
        tenant_panels(Tenancy(url, []))
    with pytest.raises(InvalidArgumentError, match="holdfast tenant add"):
        tenant_panels(Tenancy(url, [tmp_path / "missing"]))
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(InvalidArgumentError, match="is no token"):
        tenant_panels(Tenancy(url, [tmp_path / "empty"]))
    assert tenant_panels(None) == []
