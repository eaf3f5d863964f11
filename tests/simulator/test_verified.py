"""Verified jobs under faults of all kinds: nothing wrong is ever delivered.

Drawn jobs replay by their seed: `try_job(draw_job(seed))`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from holdfast.verify.machine import (
    JobState,
    Kind,
    Mode,
    Model,
    Plan,
    Quorum,
    Rules,
    Run,
    Verifier,
)
from holdfast.verify.machine.ballot import Ballot
from holdfast.verify.machine.course import _Sight
from simulator.verified import Fault, FaultKind, Job, JobTrial, draw_job, try_job

BATCH = 20
SEEDS = 400

JOIN = Plan({"a": (), "b": (), "c": ("a", "b"), "d": ("c",)}, slices=2)
"""Three stages deep, with a join."""
FOUR, SEVEN = Quorum(Model.BYZANTINE), Quorum(Model.BYZANTINE, 2)


def job(
    mode: Mode,
    quorum: Quorum,
    faults: Sequence[Fault],
    *,
    plan: Plan = JOIN,
    seed: int = 1,
    verifiers: int = 1,
    own_files: bool = True,
) -> Job:
    pools = {number: frozenset({f"host{number}"}) for number in quorum.numbers}
    rules = Rules(mode, 3, 100.0, 3000.0, own_files=own_files, pools=pools)
    made = Job(seed, plan, quorum, rules, tuple(faults), verifiers, spares=("spare",))
    return replace(made, own_files=own_files)


def runs(trial: JobTrial) -> set[Run]:
    return {each.run for each in trial.world.verifiers[0].standing().verdicts.values()}


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_seeds(first: int) -> None:
    for seed in range(first, first + BATCH):
        problems = try_job(draw_job(seed)).problems
        assert not problems, f"replay: try_job(draw_job({seed}))\n" + "\n".join(problems)


@pytest.mark.parametrize("kind", FaultKind)
@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(("quorum", "count"), [(FOUR, 1), (FOUR, 2), (SEVEN, 2), (SEVEN, 3)])
def test_every_fault_at_every_stage(
    quorum: Quorum, count: int, mode: Mode, kind: FaultKind
) -> None:
    for stage in JOIN.stages:
        faults = [Fault(kind, replica, stage, 1) for replica in range(1, count + 1)]
        trial = try_job(job(mode, quorum, faults, verifiers=3 if kind is FaultKind.SPLIT else 1))
        assert trial.problems == ()
        if trial.world.delivered is None:
            assert count > quorum.faults
            assert "replica" in trial.world.failure


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(("quorum", "count"), [(FOUR, 2), (SEVEN, 3)])
def test_liars_who_never_stop_get_nothing_through_and_are_named(
    mode: Mode, quorum: Quorum, count: int
) -> None:
    faults = [Fault(FaultKind.COLLUDE, replica, "c") for replica in range(1, count + 1)]
    trial = try_job(job(mode, quorum, faults))
    assert trial.problems == ()
    assert trial.world.delivered is None
    liars = " and ".join(["1, 2" if count == 3 else "1", str(count)])
    assert f"replicas {liars} agree on" in trial.world.failure


def test_faults_on_two_paths_in_consecutive_stages() -> None:
    """The worked case of the digest: hybrid goes on, non-blocking begins again."""
    chain = Plan({"a": (), "b": ("a",), "c": ("b",)}, slices=2)
    faults = [Fault(FaultKind.WRONG, 1, "a", 1), Fault(FaultKind.WRONG, 2, "b", 1)]
    hybrid = try_job(job(Mode.HYBRID, FOUR, faults, plan=chain))
    assert hybrid.problems == ()
    assert hybrid.world.delivered is not None
    assert runs(hybrid) == {Run()}
    restarts = []
    for seed in range(20):
        trial = try_job(job(Mode.NON_BLOCKING, FOUR, faults, plan=chain, seed=seed))
        assert trial.problems == ()
        assert trial.world.delivered is not None
        restarts.append(max(runs(trial)))
    assert Run(1, 0) in restarts, "the second stage began on bad input in some"


def test_a_first_stage_without_a_quorum_is_computed_again_itself() -> None:
    chain = Plan({"a": (), "b": ("a",)}, slices=1)
    faults = [Fault(FaultKind.COLLUDE, replica, "a", 1) for replica in (1, 2)]
    trial = try_job(job(Mode.HYBRID, FOUR, faults, plan=chain))
    assert trial.problems == ()
    assert trial.world.delivered is not None
    verdicts = trial.world.verifiers[0].standing().verdicts
    assert (verdicts["a"].run, verdicts["b"].run) == (Run(0, 1), Run())


def test_redirected_inputs_come_from_somebody_elses_copy() -> None:
    trial = try_job(job(Mode.BLOCKING, FOUR, [Fault(FaultKind.WRONG, 1, "a")]))
    assert trial.problems == ()
    (step,) = [t.step for t in trial.world.trace if t.replica == 1 and t.step.stage == "c"]
    assert all(each.holders[0].replica != 1 for each in step.inputs["a"])
    assert all(each.holders[0].replica == 1 for each in step.inputs["b"])


def test_right_hash_with_wrong_data_is_laid_at_the_makers_door() -> None:
    """Redirected readers find out, and have the coordinator look; or it does when it delivers."""
    faults = [
        *(Fault(FaultKind.WRONG, replica, "a") for replica in (1, 2)),
        Fault(FaultKind.HOLLOW, 4, "a"),
        Fault(FaultKind.HOLLOW, 1, "d"),
    ]
    blamed = set()
    for seed in range(20):
        trial = try_job(job(Mode.HYBRID, SEVEN, faults, seed=seed))
        assert trial.problems == ()
        assert trial.world.delivered is not None
        found = trial.world.verifiers[0].findings
        blamed |= {each.replica for each in found if each.kind is Kind.BROKEN_DATA}
    assert blamed == {1, 4}


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(("quorum", "count"), [(FOUR, 1), (SEVEN, 2)])
def test_liars_who_rewrite_all_that_they_can_reach_reach_their_own_files(
    quorum: Quorum, count: int, mode: Mode
) -> None:
    for seed in range(20):
        faults = [Fault(FaultKind.REWRITE, replica, "a") for replica in range(1, count + 1)]
        trial = try_job(job(mode, quorum, faults, seed=seed))
        assert trial.problems == ()
        assert trial.world.delivered is not None


@pytest.mark.parametrize("mode", Mode)
def test_nobody_is_accused_for_files_that_all_can_write(mode: Mode) -> None:
    """It may come to no result, but never to a wrong name."""
    faults = [Fault(FaultKind.REWRITE, 4, "a")]
    spoiled = 0
    for seed in range(20):
        trial = try_job(job(mode, FOUR, faults, seed=seed, own_files=False))
        assert trial.problems == ()
        found = trial.world.verifiers[0].findings
        assert not [each for each in found if each.kind is Kind.BROKEN_DATA]
        spoiled += any(each.kind is Kind.SPOILED_FILE for each in found)
    assert spoiled


def test_a_crash_of_one_of_two_costs_nothing() -> None:
    pair = Quorum(Model.CRASH)
    for stage in JOIN.stages:
        trial = try_job(job(Mode.HYBRID, pair, [Fault(FaultKind.CRASH, 1, stage)]))
        assert trial.problems == ()
        assert trial.world.verifiers[0].state is JobState.DONE


def _count_any_basis(patch: pytest.MonkeyPatch) -> None:
    def votes(self: Ballot, run: Run, basis: bytes) -> dict[int, object]:
        return {
            replica: next(report for (each, _), report in reversed(words.items()) if each == run)
            for replica, words in self.reports.items()
            if any(each == run for each, _ in words)
        }

    patch.setattr(Ballot, "votes", votes)


def _ask_no_grandparents(patch: pytest.MonkeyPatch) -> None:
    ready = _Sight._is_ready

    def is_ready(self: _Sight, parent: str) -> bool:
        done = self.computed.get(parent)
        return ready(self, parent) or (done is not None and self.mode is Mode.HYBRID)

    patch.setattr(_Sight, "_is_ready", is_ready)


def _keep_what_is_tainted(patch: pytest.MonkeyPatch) -> None:
    step = _Sight.step

    def once(self: _Sight, stage: str) -> object:
        found = step(self, stage)
        done = self.computed.get(stage)
        return None if found and done and done.run == found.run else found

    patch.setattr(_Sight, "step", once)


def _share_spares(patch: pytest.MonkeyPatch) -> None:
    make = Verifier.__init__

    def shared(self: Verifier, *arguments: object) -> None:
        make(self, *arguments)  # type: ignore[arg-type]
        self._pools = {each: hosts | {"spare0", "spare1"} for each, hosts in self._pools.items()}

    patch.setattr(Verifier, "__init__", shared)


def _blame_the_owner(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Rules, "own_files", property(lambda _: True, lambda *_: None))


MUTATIONS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a simple majority is enough": lambda patch: patch.setattr(
        Quorum, "needed", property(lambda self: self.replicas // 2)
    ),
    "one accuser is believed": lambda patch: patch.setattr(
        Quorum, "credible", property(lambda _: 1)
    ),
    "votes count whatever they were computed from": _count_any_basis,
    "who owns a spoiled file has spoiled it": _blame_the_owner,
    "two stages in a row may be unverified": _ask_no_grandparents,
    "what is tainted stays": _keep_what_is_tainted,
    "spare hosts are everybody's": _share_spares,
    "a replica elsewhere than planned counts": lambda patch: patch.setattr(
        Rules, "pools", property(lambda _: {}, lambda *_: None)
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_missing_rule_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTATIONS[name](monkeypatch)
    assert any(_fails(seed) for seed in range(SEEDS)), f"unnoticed in {SEEDS} seeds"


def _fails(seed: int) -> bool:
    try:
        return bool(try_job(draw_job(seed, mode=Mode.HYBRID)).problems)
    except Exception:  # A rule that is missing may bring the protocol to a stop of its own.
        return True


def test_a_verifier_without_half_of_its_journal_is_another() -> None:
    trial = try_job(job(Mode.HYBRID, FOUR, [Fault(FaultKind.COLLUDE, 1, "a", 1)]))
    calls = trial.world.calls[0]
    standing = trial.world.verifiers[0].standing()
    assert trial.world.replayed(0) == standing
    del calls[len(calls) // 2 :]
    assert trial.world.replayed(0) != standing


def test_a_spare_host_that_a_liar_claims_is_his_who_is_moved_there() -> None:
    claims = [Fault(FaultKind.HOST, 1, stage) for stage in "bcd"]
    trials = [
        try_job(job(Mode.HYBRID, FOUR, [*claims, Fault(FaultKind.RESTART, 2, "a", 1)], seed=seed))
        for seed in range(10)
    ]
    for trial in trials:
        assert trial.problems == ()
    found = [trial.world.verifiers[0] for trial in trials]
    assert any(
        (each.kind, each.replica, each.host) == (Kind.MISPLACED, 1, "spare")
        for verifier in found
        for each in verifier.findings
    )
    assert any(
        holder.host == "spare"
        for verifier in found
        for holder in verifier.verdict("d").slices[0].holders
    )


def test_speed_alone_is_no_fault() -> None:
    slow = replace(job(Mode.HYBRID, FOUR, []), speeds={4: 10.0})
    trial = try_job(slow)
    assert trial.problems == ()
    assert trial.world.verifiers[0].findings == ()
