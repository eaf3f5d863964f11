"""What reports call the machine that a process runs on."""

from __future__ import annotations

import os
import socket
from typing import Final

__all__ = ["HOST", "this_host"]

HOST: Final = "HOLDFAST_HOST"
"""Environment variable: what this machine is to be called, if not what it calls itself."""


def this_host() -> str:
    """As Spark calls it if it was told how to."""
    return os.environ.get(HOST) or os.environ.get("SPARK_LOCAL_HOSTNAME") or socket.gethostname()
