"""Single calls to a server: rows by ticket, actions, pushed rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Timer
from typing import Self

import pyarrow as pa
import pyarrow.flight as fl

from holdfast.errors import RefusedError, UnreachableError, WireError
from holdfast.storage.untrusted import check_table
from holdfast.transport.addresses import Address, hang_up_client
from holdfast.transport.front import FIRST, KNOCK
from holdfast.transport.security import OPEN, Security, check_address

TIMEOUT = 30.0
"""Seconds for a call as a whole."""


def connect(address: Address, security: Security, patience: float) -> fl.FlightClient:
    """A connection of its own, made when it is first used. `patience`: seconds to make it."""
    check_address(address.host, security)
    milliseconds = max(1, int(1000 * patience))
    options = [
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_http_proxy", 0),
        ("grpc.initial_reconnect_backoff_ms", min(100, milliseconds)),
        # This is also how long one attempt to connect may take.
        ("grpc.min_reconnect_backoff_ms", milliseconds),
        ("grpc.max_reconnect_backoff_ms", milliseconds),
    ]
    if not security.tls:
        return fl.FlightClient(address.location(tls=False), generic_options=options)
    return fl.FlightClient(
        address.location(tls=True),
        tls_root_certs=security.authority,
        cert_chain=security.certificate,
        private_key=security.key,
        generic_options=options,
    )


def explain(address: Address, error: Exception) -> WireError:
    """What Flight raises, as one of our errors."""
    said = str(error).partition(". Detail:")[0].partition(". gRPC client debug")[0][:300]
    if isinstance(error, fl.FlightUnauthenticatedError | fl.FlightUnauthorizedError):
        return RefusedError(f"{address}: {said}; give the token that its server was given")
    if isinstance(error, fl.FlightServerError):
        return RefusedError(f"{address}: {said}")
    unreachable = fl.FlightUnavailableError | fl.FlightTimedOutError | fl.FlightCancelledError
    if isinstance(error, unreachable):
        if "Connection refused" in said:
            said = "nobody listens there"
        return UnreachableError(
            f"{address}: {said}; see whether it runs and whether both sides use TLS or neither"
        )
    return WireError(f"{address}: {said}")


class LogClient:
    """Keeps a connection to a server for calls. One thread at a time. A context manager."""

    def __init__(
        self,
        address: tuple[str, int] | str,
        security: Security | None = None,
        *,
        timeout: float = TIMEOUT,
    ) -> None:
        """`timeout`: seconds for each call as a whole."""
        self.address = Address.of(address)
        self._timeout = timeout
        self._security = security or OPEN
        self._options = self._options_for(timeout)
        self._client = connect(self.address, self._security, timeout)

    def fetch(self, ticket: bytes) -> pa.Table:
        """The rows that a ticket stands for."""
        with self._explaining():
            table = self._client.do_get(fl.Ticket(ticket), self._options).read_all()
        check_table(table)
        return table

    def act(self, name: str, body: bytes = b"", *, longer: float = 0.0) -> bytes:
        """`longer`: seconds that this call may take longer than others."""
        options = self._options_for(self._timeout + longer) if longer else self._options
        with self._explaining():
            if len(body) > FIRST // 2 and self._security is not OPEN:
                list(self._client.do_action(fl.Action(KNOCK, b""), options))
            results = list(self._client.do_action(fl.Action(name, body), options))
        return b"".join(result.body.to_pybytes() for result in results)

    def push(self, stream: str, rows: pa.Table | pa.RecordBatch) -> list[bytes]:
        """Send rows to a stream; answers the acknowledgement of each batch of them."""
        batches = rows.to_batches() if isinstance(rows, pa.Table) else [rows]
        # A write to a server that is stopped ends with its connection only.
        deadline = Timer(self._timeout + 0.5, hang_up_client, [self.address])
        deadline.daemon = True
        deadline.start()
        try:
            with self._explaining():
                return self._push(stream, rows.schema, batches)
        finally:
            deadline.cancel()
            deadline.join()

    def _push(self, stream: str, schema: pa.Schema, batches: list[pa.RecordBatch]) -> list[bytes]:
        descriptor = fl.FlightDescriptor.for_path(stream)
        writer, reader = self._client.do_put(descriptor, schema, self._options)
        acknowledged = []
        try:
            for batch in batches:
                writer.write_batch(batch)
                answer = reader.read()
                if answer is None:
                    # It ended the call: closing says why.
                    writer.close()
                    raise WireError(f"{self.address}: rows were not acknowledged; send them again")
                acknowledged.append(answer.to_pybytes())
            writer.done_writing()
        finally:
            if len(acknowledged) < len(batches):
                with suppress(fl.FlightError, pa.ArrowException, OSError):
                    writer.close()
        writer.close()
        return acknowledged

    def streams(self) -> dict[str, pa.Schema]:
        """The streams it serves, with their columns."""
        with self._explaining():
            found = list(self._client.list_flights(options=self._options))
        return {info.descriptor.path[0].decode(): info.schema for info in found}

    def close(self) -> None:
        with suppress(fl.FlightError, pa.ArrowException, OSError):
            self._client.close()

    def _options_for(self, timeout: float) -> fl.FlightCallOptions:
        return fl.FlightCallOptions(timeout=timeout, headers=self._security.headers)

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except (fl.FlightError, pa.ArrowException, OSError) as error:
            raise explain(self.address, error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def fetch(
    address: tuple[str, int] | str,
    security: Security | None,
    ticket: bytes,
    *,
    timeout: float = TIMEOUT,
) -> pa.Table:
    """One fetch over a connection of its own."""
    with LogClient(address, security, timeout=timeout) as client:
        return client.fetch(ticket)


def act(
    address: tuple[str, int] | str,
    security: Security | None,
    name: str,
    body: bytes = b"",
    *,
    timeout: float = TIMEOUT,
) -> bytes:
    """One action over a connection of its own."""
    with LogClient(address, security, timeout=timeout) as client:
        return client.act(name, body)
