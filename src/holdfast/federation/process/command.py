"""The commands `holdfast participant` and `holdfast contracts ...`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from holdfast.errors import InvalidArgumentError

contracts = typer.Typer(
    name="contracts",
    help="Contracts by which independent participants hand load to each other.",
    no_args_is_help=True,
)

File = Annotated[Path, typer.Argument(help="A participant, as TOML.")]


@contracts.command()
def key(path: Annotated[Path, typer.Argument(help="A new file for the secret key.")]) -> None:
    """Make a key, and print its public half for the files of partners."""
    from holdfast.storage.signing import Signer

    signer = Signer.make()
    try:
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InvalidArgumentError(f"{path}: {error.strerror}; name a new file") from error
    with os.fdopen(opened, "w") as file:
        file.write(signer.secret.hex() + "\n")
    print(signer.public.hex())


@contracts.command()
def show(file: File) -> None:
    """Read the file of a participant, tell all that is wrong with it, and show its contracts."""
    from holdfast.federation.process.display import show_contracts
    from holdfast.federation.process.settings import Participant

    show_contracts(Participant.read(file), Console())


@contracts.command()
def advise(
    file: File,
    history: Annotated[
        Path, typer.Option(help="Loads that were measured, a share of the cpu on each line.")
    ],
    most: Annotated[int, typer.Option(help="How many contracts to think of.", min=1, max=100)] = 10,
    hops: Annotated[
        int, typer.Option(help="Contracts between the farthest two of the federation.", min=1)
    ] = 1,
    upkeep: Annotated[
        float, typer.Option(help="What a contract costs, in overload that it must avoid.", min=0)
    ] = 0.0,
) -> None:
    """Say how many contracts to ask for, and at what prices."""
    from holdfast.federation.process.display import make_advice, read_history, show_advice
    from holdfast.federation.process.settings import Participant

    loads = read_history(history)
    advice = make_advice(Participant.read(file), loads, most=most, hops=hops, upkeep=upkeep)
    show_advice(advice, Console())


@contracts.command()
def ledger(
    file: File,
    theirs: Annotated[
        Path | None, typer.Option(help="A partner's ledger: see whether both say the same.")
    ] = None,
    partner: Annotated[
        str | None, typer.Option(help="With --output: only what is between you and this one.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Write it into this file, to be given to the partner.")
    ] = None,
    letters: Annotated[
        bool, typer.Option(help="With --output: add all that both have signed, for `prove`.")
    ] = False,
) -> None:
    """Show who owes whom how much, and compare it with what a partner says."""
    from holdfast.federation.process.participant import LETTERS
    from holdfast.federation.process.records import (
        LEDGER,
        compare,
        read_ledger,
        read_letters,
        show_ledger,
        write_ledger,
    )
    from holdfast.federation.process.settings import Participant

    if (partner is None) != (output is None):
        raise InvalidArgumentError("--partner and --output go together; give both or neither")
    participant = Participant.read(file)
    mine = read_ledger(participant.path(participant.folder) / LEDGER)
    show_ledger(mine, Console())
    if output is not None and partner is not None:
        signed = []
        if letters:
            signed = read_letters(participant.path(participant.folder) / LETTERS, partner)
        write_ledger(output.absolute(), mine, partner, signed)
    if theirs is not None and not compare(mine, read_ledger(theirs), Console()):
        raise typer.Exit(1)


@contracts.command()
def prove(
    ledger: Annotated[
        Path, typer.Argument(help="A ledger that was written with --output and --letters.")
    ],
    key: Annotated[list[str], typer.Option(help="NAME=HEX: the public key of each of the two.")],
    theirs: Annotated[
        Path | None, typer.Option(help="The partner's, for letters that one of them left out.")
    ] = None,
) -> None:
    """Verify a ledger by what both have signed, without trusting either: exit code 1 if it is not
    borne out."""
    from holdfast.federation.process.records import prove_ledger, show_proof

    keys = {}
    for each in key:
        name, _, digits = each.partition("=")
        try:
            keys[name] = bytes.fromhex(digits)
        except ValueError:
            keys[name] = b""
        if not name or len(keys[name]) != 32:
            raise InvalidArgumentError(
                f"--key {each}: is no key; give NAME=HEX, as `holdfast contracts key` prints it"
            )
    proof = prove_ledger(ledger, [] if theirs is None else [theirs], keys)
    if not show_proof(ledger, proof, Console()):
        raise typer.Exit(1)
