"""Hostile tenants: a process that sends a server of tenants all that it should not have to bear.

Run as `python -m harness.hostile`, with an `Attack` as JSON on its input; it goes on until it is
terminated or its seconds are over, and prints what the server answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["CHAIN", "Attack", "AttackProcess", "chain"]

CHAIN = 150
"""Streams one after the other, that each update of a burst runs through."""
BURST = 5_000
"""Updates at once."""
AT_ONCE = 1_000
"""Updates in one publication."""
ANSWER_SECONDS = 60.0


@dataclass(frozen=True)
class Attack:
    port: int
    bursting: str
    """Token of a tenant `eve` that has a long chain and sends bursts into it."""
    changing: str
    """Token of a tenant `mal` that writes, removes and publishes as fast as it can."""
    seconds: float
    puts_per_second: float = 1_000.0
    """Of `eve`, beside her bursts."""
    seed: int = 0


def chain(length: int = CHAIN) -> dict[str, Any]:
    number = {"type": "number"}
    made: dict[str, Any] = {"s": {"channels": {"x": number}}}
    for n in range(length):
        made[f"c{n}"] = {
            "channels": {"x": {**number, "expression": "p.x + 1.0"}},
            "inputs": {"p": {"stream": f"c{n - 1}" if n else "s"}},
        }
    return {"streams": made}


class AttackProcess:
    """The attack as a process of its own, so that it takes no time from whoever measures."""

    def __init__(self, attack: Attack) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "harness.hostile"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(attack)).encode())
        self._process.stdin.close()

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> dict[str, Any]:
        """What it did, and what it was answered."""
        self._process.terminate()
        assert self._process.stdout is not None
        said = self._process.stdout.read()
        self._process.wait(30)
        told: dict[str, Any] = json.loads(said)
        return told


class _Connection:
    """One at a time; made anew whenever it breaks."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._token = token
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(
        self, method: str, path: str, body: bytes = b"", *more: str, length: int | None = None
    ) -> int:
        """The status of the answer; 0 if there was none."""
        head = [
            f"{method} {path} HTTP/1.1",
            "host: localhost",
            f"authorization: Bearer {self._token}",
            f"content-length: {len(body) if length is None else length}",
            *more,
        ]
        try:
            return await asyncio.wait_for(
                self._ask("\r\n".join(head).encode() + b"\r\n\r\n" + body), ANSWER_SECONDS
            )
        except (OSError, EOFError, ValueError, IndexError, TimeoutError):
            self.close()
            return 0

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = self._reader = None

    async def _ask(self, data: bytes) -> int:
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        assert self._reader is not None
        self._writer.write(data)
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
        if length:
            await self._reader.readexactly(int(length))
        if not length or b"connection: close" in head:
            self.close()
        return int(head.split()[1])


class _Attackers:
    def __init__(self, attack: Attack) -> None:
        self._attack = attack
        self._chance = random.Random(attack.seed)
        self.answers: Counter[str] = Counter()
        self.published = 0

    async def run(self) -> None:
        lanes = 40
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._attack.seconds):
                await self._chain()
                await asyncio.gather(
                    self._burst(),
                    self._change(),
                    self._malform(),
                    self._read(),
                    *(self._put(n, lanes) for n in range(lanes)),
                )

    @contextlib.asynccontextmanager
    async def _connection(self, token: str) -> AsyncIterator[_Connection]:
        made = _Connection(self._attack.port, token)
        try:
            yield made
        finally:
            made.close()

    def _note(self, role: str, status: int) -> int:
        self.answers[f"{role} {status}"] += 1
        return status

    async def _put(self, lane: int, lanes: int) -> None:
        """A document that changes each time."""
        pause = lanes / self._attack.puts_per_second
        following = time.monotonic() + pause * lane / lanes
        async with self._connection(self._attack.bursting) as connection:
            for n in itertools.count():
                await asyncio.sleep(max(0.0, following - time.monotonic()))
                # Where the server is slower than that, nothing is made up for later.
                following = max(following + pause, time.monotonic())
                document = {"streams": {"s": {"channels": {f"x{n % 7}": {"type": "number"}}}}}
                body = json.dumps(document).encode()
                self._note("put", await connection.ask("PUT", f"/v1/objects/p{lane}", body))

    async def _chain(self) -> None:
        body = json.dumps(chain()).encode()
        async with self._connection(self._attack.bursting) as connection:
            while True:
                status = await connection.ask("PUT", "/v1/objects/chain", body)
                if self._note("chain", status) == 200:
                    return
                await asyncio.sleep(0.05)

    async def _burst(self) -> None:
        async with self._connection(self._attack.bursting) as connection:
            while True:
                status = 202
                for _ in range(BURST // AT_ONCE):
                    status = min(status, await self._publish(connection)) or status
                await asyncio.sleep(0.0 if status == 202 else 0.1)

    async def _publish(self, connection: _Connection) -> int:
        at, first = int(time.time() * 1e6), self.published
        updates = [
            {"channels": {"x": float(first + n)}, "timestamp": at - AT_ONCE + n}
            for n in range(AT_ONCE)
        ]
        body = json.dumps(updates).encode()
        status = await connection.ask("POST", "/v1/streams/eve/chain/s/updates", body)
        if self._note("burst", status) == 202:
            self.published += AT_ONCE
        else:
            await asyncio.sleep(0.02)
        return status

    async def _change(self) -> None:
        """Documents written, removed and published to, in any order."""
        async with self._connection(self._attack.changing) as connection:
            for n in itertools.count():
                name = f"o{self._chance.randrange(5)}"
                roll = self._chance.random()
                if roll < 0.4:
                    body = json.dumps(_document(self._chance)).encode()
                    status = await connection.ask("PUT", f"/v1/objects/{name}", body)
                elif roll < 0.5:
                    status = await connection.ask("DELETE", f"/v1/objects/{name}")
                else:
                    update = {"channels": {"x": float(n)}, "timestamp": int(time.time() * 1e6)}
                    path = f"/v1/streams/mal/{name}/a/updates"
                    status = await connection.ask("POST", path, json.dumps(update).encode())
                self._note("change", status)
                await asyncio.sleep(0.02)

    async def _malform(self) -> None:
        """What is no request, no document, no update, or far too large."""
        tries: list[Callable[[_Connection], Awaitable[int]]] = [
            lambda c: c.ask("PUT", "/v1/objects/o", self._chance.randbytes(200)),
            lambda c: c.ask("PUT", "/v1/objects/o", b"[" * 100_000),
            lambda c: c.ask("PUT", "/v1/objects/o", b"{" + b" " * 2_000_000 + b"}"),
            lambda c: c.ask("PUT", f"/v1/objects/{'x' * 60_000}", b"{}"),
            lambda c: c.ask("PUT", "/v1/objects/o", b"", length=2**62),
            lambda c: c.ask("PUT", "/v1/objects/o", b"{}", "content-length: 7"),
            lambda c: c.ask("POST", "/v1/streams/eve/chain/s/updates", b'{"channels":{"x":1e999}}'),
            lambda c: c.ask("POST", "/v1/streams/ben/o/s/updates", b'{"channels":{"x":1}}'),
            lambda c: c.ask("GET", "/v1/streams/ben/o/s/last"),
            lambda c: c.ask("GET", "/v1/streams?tags=a:b", b"", "authorization: Bearer x"),
            lambda c: c.ask("BREW", "/" + "%00" * 50),
        ]
        while True:
            async with self._connection(self._attack.changing) as connection:
                ask = self._chance.choice(tries)
                with contextlib.suppress(TimeoutError):
                    self._note("malformed", await asyncio.wait_for(ask(connection), 2.0))
            await asyncio.sleep(0.05)

    async def _read(self) -> None:
        """Reads that cost much."""
        async with self._connection(self._attack.bursting) as connection:
            while True:
                asked = self._chance.choice(
                    [
                        "/v1/streams/eve/chain/c149/updates?text=*a*b*&limit=1000",
                        "/v1/streams/eve/chain/s/updates?limit=1000",
                        "/v1/streams?limit=1000",
                        "/v1/streams/eve/chain/c149",
                    ]
                )
                self._note("read", await connection.ask("GET", asked))
                await asyncio.sleep(0.02)


def _document(chance: random.Random) -> dict[str, Any]:
    """A simple stream `a`, and some that are calculated from it and each other."""
    number = {"type": "number"}
    streams: dict[str, Any] = {"a": {"channels": {"x": number}}}
    for n in range(chance.randrange(4)):
        source = chance.choice(list(streams))
        stream: dict[str, Any] = {"inputs": {"p": {"stream": source}}}
        if chance.random() < 0.5:
            expression = f"p.x * {chance.randrange(1, 5)}.0 - 1.0"
        else:
            expression = "window.total"
            stream["aggregate"] = {
                "input": "p",
                "count": chance.randrange(1, 9),
                "fields": {"total": {"function": "sum", "of": "p.x"}},
            }
        stream["channels"] = {"x": {**number, "expression": expression}}
        streams[f"d{n}"] = stream
    return {"streams": streams}


async def _main() -> None:
    attack = Attack(**json.load(sys.stdin))
    attackers = _Attackers(attack)
    running = asyncio.create_task(attackers.run())
    asyncio.get_running_loop().add_signal_handler(15, running.cancel)
    began = time.monotonic()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    told = {
        "seconds": time.monotonic() - began,
        "published": attackers.published,
        "answers": dict(sorted(attackers.answers.items())),
    }
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    asyncio.run(_main())
