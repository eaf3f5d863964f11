"""docs/tenants.md to the letter: its commands in a shell, then its chart in a browser.

The server is one without Spark, which settles in this process; `tests/live` has the real one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import expect

from harness.browser import chromium
from tests.tenants.process.test_client import served
from tests.tenants.process.test_http import Site

REPOSITORY = Path(__file__).parents[3]
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVE = "holdfast serve > serve.log 2>&1 &\n"
LISTEN = "http://127.0.0.1:8080"
PATIENCE = 60.0
PATIENT_CURL = "curl -s --retry 30 --retry-delay 1 --retry-all-errors -f"


@contextmanager
def settling(site: Site) -> Iterator[None]:
    """All that is published is settled, a moment later."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.01):
            site.settle()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_the_wind_chill_from_curl_to_a_chart(tmp_path: Path) -> None:
    blocks = BLOCK.findall((REPOSITORY / "docs" / "tenants.md").read_text())
    assert SERVE in blocks[0]
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    site = Site(tmp_path / "tenants")
    with served(site) as address, settling(site):
        script = "".join(blocks).replace(SERVE, "").replace(LISTEN, address)
        # What is calculated may take longer here than where the document is read.
        last = f"curl {address}/v1/streams/ben/chill/felt/last"
        assert last in script
        script = script.replace(last, last.replace("curl", PATIENT_CURL))
        script = re.sub(r"^ *sleep \d+$", "", script, flags=re.MULTILINE)
        ended = subprocess.run(
            ["bash", "-euc", script + "echo; echo $BEN"],
            cwd=tmp_path,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        said = ended.stdout
        assert '"error"' not in said, said
        assert '"object":"chill","version":1' in said
        assert '"values":{"celsius":-10.4' in said
        assert '"owners":["ann","ben"]' in said
        with chromium() as browser:
            page = browser.new_page()
            page.goto(address)
            page.get_by_label("Stream").fill("ben/chill/felt")
            page.get_by_label("Token").fill(said.split()[-1])
            page.get_by_role("button", name="Show").click()
            # -8 degrees in 25 km/h.
            expect(page.locator("#last")).to_have_text("celsius -16.19", timeout=PATIENCE * 1e3)
            expect(page.locator("#state")).to_have_text("Following ben/chill/felt")
            points = page.locator("#line").get_attribute("points") or ""
            assert len(points.split()) == 5
