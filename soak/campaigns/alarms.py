"""The example of the machine's alarms: a link is cut while it runs, as a user sees it."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from harness.examples import EXAMPLES, load_example
from harness.ports import free_port

USES_SPARK = True
DESCRIPTION = "the alarms of examples/machines: tentative through a cut, then those without one"


def run(seed: int) -> str:
    """Every seed is the same case: chance is in the machine alone."""
    machines = load_example("machines")
    text = (EXAMPLES / "machines" / "alarms.toml").read_text()
    with tempfile.TemporaryDirectory(prefix="holdfast-alarms-") as folder:
        file = Path(folder) / "alarms.toml"
        file.write_text(re.sub(r"127\.0\.0\.1:\d+", lambda _: f"127.0.0.1:{free_port()}", text))
        outcome = machines.run(file, lambda _: None)
    if not outcome.is_right:
        raise AssertionError(outcome.summary())
    return str(outcome.summary()).replace("\n", "; ")
