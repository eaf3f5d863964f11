"""A real MQTT broker on a port of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.sources.rig import wait_for

__all__ = ["broker"]

ROOT = Path(__file__).parents[2]


def _mosquitto() -> str:
    # Debian puts it where only root looks.
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
    found = shutil.which("mosquitto", path=path)
    if found is None and os.geteuid() == 0:
        subprocess.run([ROOT / "scripts" / "require-mosquitto.sh"], check=True)
        found = shutil.which("mosquitto", path=path)
    if found is None:
        pytest.skip("mosquitto is not installed: sudo apt-get install mosquitto")
    return found


@contextmanager
def broker(port: int, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Keeps its sessions in the folder, so that it can be started again."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    settings = folder / "mosquitto.conf"
    settings.write_text(
        f"listener {port} 127.0.0.1\n"
        "allow_anonymous true\n"
        "persistence true\n"
        f"persistence_location {folder}/\n"
        "autosave_on_changes true\n"
        "autosave_interval 1\n"
        f"user {'root' if os.geteuid() == 0 else ''}\n"
    )
    process = subprocess.Popen(
        [_mosquitto(), "-c", settings], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(lambda: _answers(port))
        yield process
    finally:
        process.terminate()
        process.wait(60)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
