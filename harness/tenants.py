"""A server of tenants as a process of its own, to be killed and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from harness.ports import free_port

__all__ = ["TenantServer"]

PATIENCE = 120.0


class TenantServer:
    """`holdfast serve` in a folder, on a free port."""

    def __init__(self, folder: Path, *more: str) -> None:
        self.folder = folder
        self.port = free_port()
        self._more = more
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def add(self, tenant: str, *more: str) -> str:
        """The token of a new tenant."""
        ended = subprocess.run(
            [*_HOLDFAST, "tenant", "add", tenant, "--state", str(self.folder), *more],
            capture_output=True,
            text=True,
            check=True,
        )
        return ended.stdout.strip()

    def start(self) -> None:
        listen = ["--listen", f"127.0.0.1:{self.port}", "--state", str(self.folder)]
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "said").open("ab") as said:
            self._process = subprocess.Popen(
                [*_HOLDFAST, "serve", *listen, *self._more],
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        self._wait(lambda: self.health() is not None)

    def health(self) -> dict[str, int] | None:
        try:
            with urlopen(f"{self.address}/health", timeout=5) as answer:
                told: dict[str, int] = json.load(answer)
                return told
        except (URLError, OSError):
            return None

    def wait_settled(self) -> None:
        """Until all that is in the log has been calculated."""

        def settled() -> bool:
            told = self.health()
            return told is not None and told["settled"] >= told["log"]

        self._wait(settled)

    def health_with_status(self) -> tuple[int, dict[str, Any]]:
        """Also while the server says that it is not well."""
        try:
            with urlopen(f"{self.address}/health", timeout=5) as answer:
                return answer.status, json.load(answer)
        except HTTPError as error:
            with error:
                return error.code, json.load(error)

    def kill_spark(self) -> int:
        """The JVM alone; answers its number."""
        pid = self.spark_pid()
        os.kill(pid, signal.SIGKILL)
        return pid

    def spark_pid(self) -> int:
        return int((self.folder / "spark.pid").read_text().split()[0])

    def kill(self) -> None:
        """It and its Spark, at once."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()

    def _wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = (self.folder / "said").read_text(errors="replace")[-3000:]
                raise AssertionError(f"the server does not do it: {said}")
            time.sleep(0.1)


_HOLDFAST = (sys.executable, "-m", "holdfast")
