"""Reports as replicas make them, in few words."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.verify.machine import (
    Agreed,
    Computed,
    Holder,
    Mode,
    Model,
    Plan,
    Quorum,
    Report,
    Rules,
    Run,
    Verifier,
    basis_of,
)

CHAIN = Plan({"a": (), "b": ("a",), "c": ("b",)}, slices=1)
FOUR = Quorum(Model.BYZANTINE)
SEVEN = Quorum(Model.BYZANTINE, 2)
PAIR = Quorum(Model.CRASH)

ROOT = basis_of({})
RUN0, RUN1 = Run(0, 0), Run(0, 1)


def digest(word: str) -> bytes:
    return word.encode().ljust(32, b".")


def basis(**parents: str | Sequence[str]) -> bytes:
    """Of parents whose slices have these words for digests."""
    return basis_of(
        {
            parent: [digest(word) for word in ([words] if isinstance(words, str) else words)]
            for parent, words in parents.items()
        }
    )


def report(
    stage: str,
    replica: int,
    word: str,
    *,
    of: bytes = ROOT,
    run: Run = RUN0,
    slice: int = 0,
    rows: int = 1,
    host: str | None = None,
    seq: int | None = None,
) -> Report:
    return Report(
        "job",
        stage,
        run,
        slice,
        replica,
        host or f"host{replica}",
        f"job/{replica}/{stage}/{run}/{slice}-{word}",
        digest(word),
        rows,
        of,
        seq,
    )


def verifier(
    quorum: Quorum = FOUR, plan: Plan = CHAIN, mode: Mode = Mode.HYBRID, **rules: object
) -> Verifier:
    return Verifier("job", plan, quorum, Rules(mode, **rules))  # type: ignore[arg-type]


def tell(
    to: Verifier, stage: str, words: str, *, of: bytes = ROOT, run: Run = RUN0, now: float = 0.0
) -> None:
    """One letter for each replica from the first on; a dot for one that says nothing."""
    for replica, word in enumerate(words, 1):
        if word != ".":
            to.report(report(stage, replica, word, of=of, run=run), now)


def agreed(to: Verifier, stage: str) -> str | None:
    """The word that was agreed upon of the first slice."""
    found = to.verdict(stage).slices.get(0)
    return None if found is None else found.digest.rstrip(b".").decode()


def computed(replica: int, word: str, *, run: Run = RUN0, **parents: str) -> Computed:
    holder = Holder(replica, f"host{replica}", f"own/{replica}/{word}")
    return Computed(
        run,
        {parent: (digest(each),) for parent, each in parents.items()},
        (Agreed(digest(word), 1, (holder,)),),
    )
