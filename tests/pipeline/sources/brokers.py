"""A real MQTT broker on a port of its own."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.pipeline.sources.rig import wait_for
from tests.transport.certificates import Identity

__all__ = ["broker"]

ROOT = Path(__file__).parents[3]


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
def broker(
    port: int,
    folder: Path,
    users: Mapping[str, str] | None = None,
    identity: Identity | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Keeps its sessions in the folder, so that it can be started again. With users, by their
    passwords, it lets in nobody else. With an identity it speaks TLS."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    settings = folder / "mosquitto.conf"
    settings.write_text(
        f"listener {port} 127.0.0.1\n"
        f"{_proof(folder, identity) if identity else ''}"
        f"{_guard(folder, users) if users else 'allow_anonymous true'}\n"
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


def _guard(folder: Path, users: Mapping[str, str]) -> str:
    """As mosquitto_passwd writes them: PBKDF2 with SHA-512."""
    lines = []
    for name, password in users.items():
        salt, rounds = b"123456789012", 101
        digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, rounds)
        parts = (str(rounds), *(b64encode(each).decode() for each in (salt, digest)))
        lines.append(f"{name}:$7${'$'.join(parts)}\n")
    (folder / "passwords").write_text("".join(lines))
    return f"allow_anonymous false\npassword_file {folder}/passwords"


def _proof(folder: Path, identity: Identity) -> str:
    (folder / "certificate").write_bytes(identity.certificate)
    (folder / "key").write_bytes(identity.key)
    return f"certfile {folder}/certificate\nkeyfile {folder}/key\n"


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
