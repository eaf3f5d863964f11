"""The commands `holdfast serve` and `holdfast tenant ...`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.errors import InvalidArgumentError

if TYPE_CHECKING:
    from holdfast.tenants.process.service import Service


tenant = typer.Typer(name="tenant", help="Tenants of a server of streams.", no_args_is_help=True)

State = Annotated[Path, typer.Option(help="The folder of the server.")]
Store = Annotated[
    str | None,
    typer.Option(
        envvar="HOLDFAST_DATABASE",
        help="postgresql://... instead of SQLite in the folder; better given by the environment.",
    ),
]


def serve(
    state: State = Path("tenants"),
    listen: Annotated[str, typer.Option(help="HOST:PORT.")] = "127.0.0.1:8080",
    database: Store = None,
    certificate: Annotated[Path | None, typer.Option(help="For TLS, as PEM.")] = None,
    key: Annotated[Path | None, typer.Option(help="Of the certificate, as PEM.")] = None,
    webhook_host: Annotated[
        list[str] | None, typer.Option(help="A host that actions may call; may be given again.")
    ] = None,
    mqtt: Annotated[str | None, typer.Option(help="HOST:PORT of a broker to bridge to.")] = None,
    mqtt_user: Annotated[
        str | None,
        typer.Option(help="Whom to log in as; HOLDFAST_MQTT_PASSWORD goes with it."),
    ] = None,
    mqtt_authority: Annotated[
        Path | None, typer.Option(help="Who signed the broker's certificate, as PEM: for TLS.")
    ] = None,
    mqtt_guarded: Annotated[
        bool,
        typer.Option(
            "--mqtt-guarded",
            help="The broker lets tenants use their own topics only: no token is needed in "
            "messages, and all streams go out.",
        ),
    ] = False,
    master: Annotated[str, typer.Option(help="The Spark master.")] = "local[2]",
    memory: Annotated[
        str | None,
        typer.Option(help="Heap of Spark's JVM, as 2g; else a quarter of the machine, 1 to 8 GiB."),
    ] = None,
) -> None:
    """Serve streams that many tenants publish, derive and follow, without a restart."""
    from holdfast.tenants.process.mqtt import Broker
    from holdfast.tenants.process.serving import serve as run

    run(
        state,
        listen=listen,
        database=database,
        certificate=certificate,
        key=key,
        webhook_hosts=webhook_host or (),
        broker=None if mqtt is None else Broker.of(mqtt, mqtt_user, mqtt_authority, mqtt_guarded),
        master=master,
        memory=memory,
    )


@tenant.command("add")
def add(
    name: Annotated[str, typer.Argument(help="What to call it.")],
    state: State = Path("tenants"),
    database: Store = None,
    streams: Annotated[int | None, typer.Option(help="So many streams it may have.")] = None,
    updates_per_second: Annotated[
        float | None, typer.Option(help="So many updates it may publish.")
    ] = None,
    changes_per_second: Annotated[
        float | None, typer.Option(help="So many documents it may write or remove.")
    ] = None,
    reads_per_second: Annotated[
        float | None, typer.Option(help="So many reads it may make, by their cost.")
    ] = None,
    kept: Annotated[
        int | None, typer.Option(help="So many updates are kept of each of its streams.")
    ] = None,
) -> None:
    """Let a tenant in. Its token is printed, this once."""
    import msgspec

    from holdfast.tenants.process.backlog import Quotas

    given = {
        "streams": streams,
        "updates_per_second": updates_per_second,
        "changes_per_second": changes_per_second,
        "reads_per_second": reads_per_second,
        "kept": kept,
    }
    changed = {name: value for name, value in given.items() if value is not None}
    quotas = msgspec.convert(changed, Quotas)
    with _opened(state, database, may_be_new=True) as service:
        print(service.registry.add(name, quotas))


@tenant.command("rotate")
def rotate(
    name: Annotated[str, typer.Argument(help="Whose token is to be replaced.")],
    state: State = Path("tenants"),
    database: Store = None,
    grace: Annotated[
        str, typer.Option(help="So long the old token is valid too, such as 1h.")
    ] = "0s",
) -> None:
    """Replace a tenant's token, while the server runs. The new one is printed, this once."""
    from holdfast.intervals import parse_interval

    with _opened(state, database) as service:
        print(service.registry.rotate(name, parse_interval("--grace", grace)))
        service.audit.note(name, "rotate", "token", f"done; the old one ends in {grace}")


@tenant.command("list")
def names(state: State = Path("tenants"), database: Store = None) -> None:
    """List the tenants."""
    with _opened(state, database) as service:
        for name in service.registry.names():
            print(name)


@contextmanager
def _opened(state: Path, database: str | None, *, may_be_new: bool = False) -> Iterator[Service]:
    """What the server keeps, whether it runs or not."""
    from holdfast.tenants.process.service import Service

    if not may_be_new and database is None and not state.is_dir():
        raise InvalidArgumentError(
            f"--state: there is no folder {state}; give that of the server, or begin with "
            "`holdfast tenant add`"
        )
    service = Service.open(state, database)
    try:
        yield service
    finally:
        service.database.close()
