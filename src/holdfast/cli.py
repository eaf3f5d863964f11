"""The `holdfast` command: reads arguments, calls the library, turns errors into exit codes.

Nothing imports this module but the console script. Commands import what they need when they run,
so that `holdfast --help` stays fast.
"""

from __future__ import annotations

import signal
import sys
import traceback
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Final, Literal, NoReturn

import typer
from rich.console import Console

from holdfast import __version__
from holdfast.edge.process.command import edge
from holdfast.errors import HoldfastError, InvalidArgumentError
from holdfast.federation.process.command import contracts
from holdfast.tenants.process.command import serve, tenant

__all__ = ["ExitCode", "app", "main", "run_app"]


class ExitCode(IntEnum):
    """What the shell sees. Usage errors (2) and Ctrl-C (130) are typer's own."""

    OK = 0
    ERROR = 1
    BUG = 70


# The headings of `holdfast --help`.
TRY: Final = "Try it"
TOPOLOGIES: Final = "Pipelines with replicas"
JOBS: Final = "Batch jobs that are verified"
SHARING: Final = "The edge, tenants, other organisations"

# What the console shows beside the topology.
Participants = Annotated[
    list[Path] | None,
    typer.Option(
        "--participant",
        help="Show the contracts, moves and balances of this participant of a federation, "
        "which runs on this host; may be given again.",
    ),
]
Tenants = Annotated[
    str | None,
    typer.Option(help="Show streams of a `holdfast serve` at this address: http://HOST:PORT."),
]
TenantTokens = Annotated[
    list[Path] | None,
    typer.Option(
        "--tenant-token-file",
        help="With --tenants: the token of a tenant to show; may be given again.",
    ),
]

app = typer.Typer(
    name="holdfast",
    help="Windowed stream analytics on Apache Spark that stay available and right under faults.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.add_typer(edge, rich_help_panel=SHARING)
app.add_typer(contracts, rich_help_panel=SHARING)
app.add_typer(tenant, rich_help_panel=SHARING)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"holdfast {__version__}")
        raise typer.Exit


@app.callback()
def holdfast(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Options that go before the command. `main` reads `--debug`, for it outlives this context."""


@app.command(rich_help_panel=TRY)
def doctor() -> None:
    """Check that this machine has what Holdfast needs, and say what to do where it has not."""
    from holdfast.doctor import examine_machine, is_healthy, print_findings

    findings = examine_machine()
    print_findings(findings, Console())
    if not is_healthy(findings):
        raise typer.Exit(ExitCode.ERROR)


@app.command(rich_help_panel=TOPOLOGIES)
def check(
    file: Annotated[Path, typer.Argument(help="A topology, as TOML.")],
    svg: Annotated[Path | None, typer.Option(help="Draw it into this .svg too.")] = None,
) -> None:
    """Read a topology, tell all that is wrong with it, and draw it."""
    from holdfast.pipeline.topology.check import check as check_file

    check_file(file, Console(), svg=svg)


@app.command(rich_help_panel=TOPOLOGIES)
def node(
    file: Annotated[Path, typer.Argument(help="A topology, as TOML.")],
    party: Annotated[
        str, typer.Argument(help="STAGE/REPLICA, as clean/1; or a stream or a sink of the file.")
    ],
    master: Annotated[str, typer.Option(help="The Spark master that a replica uses.")] = "local[2]",
    route: Annotated[
        list[str] | None,
        typer.Option(help="PARTY=HOST:PORT: reach a party elsewhere than the file says."),
    ] = None,
    metrics: Annotated[
        int | None, typer.Option(help="Serve figures for Prometheus on this port of 127.0.0.1.")
    ] = None,
    spark_ui: Annotated[
        bool, typer.Option("--spark-ui", help="Let a replica's Spark serve its own page.")
    ] = False,
) -> None:
    """Run one party of a topology: a replica of a stage, the source of a stream, or a sink."""
    from holdfast.pipeline.process.process import read_routes, run_party
    from holdfast.pipeline.topology import Topology

    run_party(
        Topology.read(file),
        party,
        master=master,
        routes=read_routes(route or []),
        metrics=metrics,
        spark_ui=spark_ui,
    )


@app.command(rich_help_panel=TOPOLOGIES)
def run(
    file: Annotated[Path, typer.Argument(help="A topology, as TOML.")],
    only: Annotated[
        list[str] | None, typer.Option(help="Run only what is on this host; may be given again.")
    ] = None,
    master: Annotated[str, typer.Option(help="The Spark master that replicas use.")] = "local[2]",
    metrics: Annotated[
        int | None,
        typer.Option(
            help="Serve figures for Prometheus on 127.0.0.1, those of the first party of the file "
            "on this port and each other's on the next."
        ),
    ] = None,
    console: Annotated[
        int | None, typer.Option(help="Serve the console on this port of 127.0.0.1.")
    ] = None,
    demo: Annotated[
        bool,
        typer.Option(
            "--demo", help="With --console: let whoever has the token freeze, kill and cut."
        ),
    ] = False,
    spark_ui: Annotated[
        bool, typer.Option("--spark-ui", help="Let each replica's Spark serve its own page.")
    ] = False,
    participants: Participants = None,
    tenants: Tenants = None,
    tenant_tokens: TenantTokens = None,
) -> None:
    """Run all parties of a topology on this machine, and show how they are."""
    from threading import Event

    from holdfast.pipeline.process.display import run_topology

    ending = Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    options = ["--master", master, *(["--spark-ui"] if spark_ui else [])]
    if console is None:
        given = {
            "--demo": demo,
            "--participant": participants,
            "--tenants": tenants,
            "--tenant-token-file": tenant_tokens,
        }
        for name, value in given.items():
            if value:
                raise InvalidArgumentError(f"{name}: does not go without --console; give it too")
        run_topology(
            file, Console(), only=only or [], options=options, metrics=metrics, ending=ending
        )
        return
    from holdfast.console.command import Wish, run_with_console
    from holdfast.console.tenants import Tenancy

    run_with_console(
        file,
        Console(),
        Wish(
            console,
            participants=participants or (),
            tenancy=Tenancy.of(tenants, tenant_tokens or ()),
        ),
        demo=demo,
        only=only or [],
        options=options,
        metrics=metrics,
        ending=ending,
    )


@app.command(rich_help_panel=SHARING)
def participant(
    file: Annotated[Path, typer.Argument(help="A participant, as TOML.")],
    master: Annotated[str, typer.Option(help="The Spark master that replicas use.")] = "local[2]",
) -> None:
    """Run the load manager of a participant, and the stages that it lets run here."""
    from threading import Event

    from holdfast.federation.process.running import run_participant

    ending = Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: ending.set())
    run_participant(file, master=master, ending=ending)


@app.command(rich_help_panel=TOPOLOGIES)
def console(
    file: Annotated[Path, typer.Argument(help="A topology, as TOML, that runs.")],
    port: Annotated[
        int, typer.Option(help="The port of the page; 0 for any.", min=0, max=65535)
    ] = 8800,
    host: Annotated[
        str, typer.Option(help="The address of the page; beyond this machine it needs TLS.")
    ] = "127.0.0.1",
    name: Annotated[
        list[str] | None,
        typer.Option(help="What browsers call this host too; may be given again."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help="A file with the token of the page.", show_default="a new one"),
    ] = None,
    watch: Annotated[
        list[str] | None,
        typer.Option(
            help="A stream to read all the time, so that there is a past to go back to; may be "
            "given again.",
            show_default="the last ones",
        ),
    ] = None,
    route: Annotated[
        list[str] | None,
        typer.Option(help="PARTY=HOST:PORT: reach a party elsewhere than the file says."),
    ] = None,
    participants: Participants = None,
    tenants: Tenants = None,
    tenant_tokens: TenantTokens = None,
) -> None:
    """Show a running topology on a web page: live, and as it was during the last hour."""
    from threading import Event

    from holdfast.console.command import Wish, show_console
    from holdfast.console.tenants import Tenancy
    from holdfast.pipeline.process.process import read_routes

    ending = Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    wish = Wish(
        port,
        host,
        tuple(name or ()),
        token_file,
        watch,
        participants or (),
        Tenancy.of(tenants, tenant_tokens or ()),
    )
    show_console(file, Console(), wish, routes=read_routes(route or []), ending=ending)


@app.command(rich_help_panel=TOPOLOGIES)
def tail(
    stream: Annotated[str, typer.Argument(help="A stream or stage of the topology.")],
    file: Annotated[Path, typer.Option("--file", "-f", help="The topology, as TOML.")],
    stable: Annotated[bool, typer.Option("--stable", help="Only final rows.")] = False,
    start: Annotated[
        bool, typer.Option("--start", help="Begin with the oldest rows that are kept.")
    ] = False,
    rows: Annotated[int | None, typer.Option(help="End after so many rows.")] = None,
    policy: Annotated[
        str,
        typer.Option(
            help="switch: read the best replica. vote, vote-latest, sample, first or latest: "
            "compare them, and show what that lets through."
        ),
    ] = "switch",
    faults: Annotated[
        int, typer.Option(help="With a vote: so many replicas may lie, of three times as many + 1.")
    ] = 1,
    route: Annotated[
        list[str] | None,
        typer.Option(help="PARTY=HOST:PORT: reach a party elsewhere than the file says."),
    ] = None,
) -> None:
    """Show the rows of a stream as they come: final green, tentative yellow, withdrawn red."""
    from holdfast.pipeline.process.process import read_routes
    from holdfast.pipeline.process.tail import tail as show
    from holdfast.pipeline.topology import Topology

    show(
        Topology.read(file),
        stream,
        Console(),
        stable=stable,
        start=start,
        rows=rows,
        policy=policy,
        faults=faults,
        routes=read_routes(route or []),
    )


@app.command(rich_help_panel=TOPOLOGIES)
def readmit(
    file: Annotated[Path, typer.Argument(help="A topology, as TOML.")],
    party: Annotated[str, typer.Argument(help="STAGE/REPLICA that was found lying, as clean/1.")],
) -> None:
    """Let the votes of a replica count again that is in quarantine."""
    from holdfast.pipeline.process.fault_tracker import readmit as ask_all
    from holdfast.pipeline.topology import Topology

    for line in ask_all(Topology.read(file), party):
        print(line)


@app.command(rich_help_panel=JOBS)
def verify(
    file: Annotated[
        Path, typer.Argument(help="A job: a Python file, a PySpark program, or Spark SQL.")
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="What the job's code finds in `sys.argv`, after '--'."),
    ] = None,
    faults: Annotated[
        int | None, typer.Option(help="How many replicas may be wrong.", show_default="1")
    ] = None,
    model: Annotated[
        Literal["crash", "byzantine"] | None,
        typer.Option(
            help="How they may be wrong: they end, or they lie.", show_default="byzantine"
        ),
    ] = None,
    mode: Annotated[
        Literal["blocking", "non-blocking", "hybrid"] | None,
        typer.Option(help="When a stage may begin.", show_default="hybrid"),
    ] = None,
    slices: Annotated[
        int | None,
        typer.Option(help="Parts of each stage's output.", show_default="as the job says"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="A new folder for the result.", show_default="FILE's name-verified"),
    ] = None,
    storage: Annotated[
        Path | None,
        typer.Option(help="A folder that all replicas see.", show_default=".holdfast-verify/..."),
    ] = None,
    work: Annotated[
        Path | None,
        typer.Option(
            help="A folder of this machine for journals, logs and traces.",
            show_default=".holdfast-verify/...",
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="The hosts there are and all settings, as TOML.")
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until all replicas can run at once.")
    ] = False,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Begin anew, though an interrupted run could go on."),
    ] = False,
    allow_shared_hosts: Annotated[
        bool,
        typer.Option("--allow-shared-hosts", help="Replicas may share hosts: for development."),
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Only run each stage twice, here, and show the rows that differ."
        ),
    ] = False,
    receipt: Annotated[
        bool,
        typer.Option(
            "--receipt", help="Only compare the delivered folder FILE with the receipt in it."
        ),
    ] = False,
) -> None:
    """Run replicas of a Spark job that check each other, and deliver only what they agree on."""
    if receipt:
        from holdfast.verify.process.delivery import check_receipt, digest_of_receipt

        wrong = list(check_receipt(file))
        for line in wrong:
            print(line)
        print(f"{len(wrong)} files differ; the receipt has the SHA-256 {digest_of_receipt(file)}")
        if wrong:
            raise typer.Exit(ExitCode.ERROR)
        return
    from threading import Event

    from holdfast.doctor import require_java
    from holdfast.verify.process.command import verify_job
    from holdfast.verify.process.config import Config

    given = {
        "faults": faults,
        "model": model,
        "mode": mode,
        "slices": slices,
        "storage": None if storage is None else str(storage),
        "work": None if work is None else str(work),
        "allow_shared_hosts": allow_shared_hosts or None,
    }
    # Before anything about hosts: whoever mistypes a name wants to hear of that.
    if not file.is_file():
        raise InvalidArgumentError(f"{file}: there is no such file; give that of a job")
    if check:
        from holdfast.verify.process.determinism_check import check_file

        if not check_file(file, Console(), arguments or ()):
            raise typer.Exit(ExitCode.ERROR)
        return
    settings = (Config() if config is None else Config.read(config)).override(given)
    if not any(pool.launch for pool in settings.pools):
        require_java()
    ending, stopping = Event(), Event()

    def stop(*_: object) -> None:
        stopping.set()
        ending.set()

    # Ctrl-C gives the job up. Who stops a service or a machine wants it to go on later.
    signal.signal(signal.SIGINT, lambda *_: ending.set())
    signal.signal(signal.SIGTERM, stop)
    result = output or Path(f"{file.stem}-verified")
    verify_job(
        file,
        settings,
        result,
        Console(),
        arguments=tuple(arguments or ()),
        wait=wait,
        fresh=fresh,
        ending=ending,
        stopping=stopping,
    )


@app.command(rich_help_panel=TRY)
def demo(
    folder: Annotated[
        Path,
        typer.Option(
            help="Where pictures, logs and state go, in place of those of an earlier run."
        ),
    ] = Path("demo-output"),
) -> None:
    """Run windows and a replicated pipeline on Spark, break them, and see that the answers hold."""
    from holdfast.demo.show import run

    # As Ctrl-C does: no process is left behind.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)
    run(Console(), folder)


@app.command(rich_help_panel=TRY)
def shadow(
    file: Annotated[Path, typer.Argument(help="A CSV file with a line of column names.")],
    last: Annotated[int, typer.Option(help="How many of the newest rows the window keeps.")],
    approximate: Annotated[
        list[str],
        typer.Option(
            help="How to approximate: max_error=0.1%, max_leaves=1000, block_maxima=1000 or hops; "
            "may be given again to combine them."
        ),
    ],
    column: Annotated[str, typer.Option(help="The column with the numbers.")] = "value",
    aggregate: Annotated[str, typer.Option(help="mean, sum, max, min or count.")] = "mean",
    picture: Annotated[
        Path | None, typer.Option(help="Draw the errors and the leaves into this .png or .svg.")
    ] = None,
) -> None:
    """Try an approximate window out beside the exact one, on a column of a file."""
    from holdfast.shadow.trial import print_report, try_out

    if picture is not None:
        from holdfast.pictures import check_picture
        from holdfast.shadow.picture import draw_shadow

        check_picture(picture)
    tried = try_out(file, column, last, approximate, aggregate)
    print_report(tried.report(), Console())
    if picture is not None:
        print(f"picture: {draw_shadow(tried, picture)}")


app.command(rich_help_panel=SHARING)(serve)


def main() -> NoReturn:
    """Run the command line and exit: the entry point of the console script."""
    run_app(app, "holdfast")


def run_app(command: typer.Typer, name: str) -> NoReturn:
    """Run a command line, with the errors of Holdfast as exit codes, and exit."""
    debug = "--debug" in sys.argv[1:]
    try:
        command(prog_name=name)
    except HoldfastError as error:
        _fail(ExitCode.ERROR, f"error: {error}", debug)
    except Exception as error:
        message = f"internal error: {type(error).__name__}: {error}"
        remedy = f"This is a bug in Holdfast. `{name} --debug ...` shows the traceback to report."
        _fail(ExitCode.BUG, message if debug else f"{message}\n{remedy}", debug)
    sys.exit(ExitCode.OK)


def _fail(code: ExitCode, message: str, debug: bool) -> NoReturn:
    if debug:
        traceback.print_exc()
    # Messages hold paths and brackets of their own: no markup, no highlighting, no wrapping.
    Console(stderr=True).print(message, style="red", markup=False, highlight=False, soft_wrap=True)
    sys.exit(code)
