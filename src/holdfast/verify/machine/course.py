"""Next step of a replica: a function of what it has computed and what is agreed.

Three modes. `blocking`: a stage starts when all its parents are verified. `non-blocking`: it starts
at once from what this replica has computed; when too few agree, the whole job begins again.
`hybrid`: it may start from an unverified parent if everything that parent read is verified. So
never two stages in a row are unverified, and when too few agree only a stage is computed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from holdfast.errors import InvalidArgumentError
from holdfast.verify.machine.plan import Plan, basis_of
from holdfast.verify.machine.reports import Agreed, Holder, JobState, Run, Standing


class Mode(StrEnum):
    BLOCKING = "blocking"
    NON_BLOCKING = "non-blocking"
    HYBRID = "hybrid"


@dataclass(frozen=True, slots=True)
class Input:
    """One slice of a parent, to be read from the first of the holders whose copy has the digest."""

    digest: bytes
    rows: int
    holders: tuple[Holder, ...]
    """Of a slice that is not agreed upon: this replica itself, and nobody else."""
    verified: bool


@dataclass(frozen=True, slots=True)
class Compute:
    """Compute a stage from these inputs (by parent and slice), and report it under this run."""

    stage: str
    run: Run
    inputs: Mapping[str, tuple[Input, ...]]
    pins: bytes = b""
    """Of the plan."""

    @property
    def digests(self) -> dict[str, tuple[bytes, ...]]:
        """Of the inputs, by parent."""
        return {
            parent: tuple(each.digest for each in slices) for parent, slices in self.inputs.items()
        }

    @property
    def basis(self) -> bytes:
        return basis_of(self.digests, self.pins)


@dataclass(frozen=True, slots=True)
class Computed:
    """What this replica has computed of a stage, the last time it did."""

    run: Run
    digests: Mapping[str, tuple[bytes, ...]]
    """Of the inputs, by parent: what `Compute.digests` was."""
    slices: tuple[Agreed, ...]
    """Its own, in order; this replica is their only holder."""


def next_steps(
    plan: Plan, mode: Mode, replica: int, standing: Standing, computed: Mapping[str, Computed]
) -> list[Compute]:
    """What may be computed now, in order of the plan; all of it may be done at once.

    Nothing means: ask the verifier again, unless `standing` says that the job is done or has
    failed. A stage that was agreed upon meanwhile need not be computed to its end.
    """
    if standing.state is not JobState.RUNNING:
        return []
    sight = _Sight(plan, mode, replica, standing, computed)
    return [step for stage in plan.stages if (step := sight.step(stage)) is not None]


def is_stale(
    plan: Plan,
    mode: Mode,
    replica: int,
    standing: Standing,
    computed: Mapping[str, Computed],
    step: Compute,
) -> bool:
    """Whether a step that is being computed need not be any more: what it reads was outvoted, or
    all of it is computed again. One that was agreed upon meanwhile is brought to its end, so that
    it is judged."""
    return _Sight(plan, mode, replica, standing, computed).is_stale(step)


def inputs_of(
    plan: Plan, replica: int, standing: Standing, computed: Mapping[str, Computed], stage: str
) -> tuple[Input, ...]:
    """Where this replica reads a stage that is agreed upon, or that it has computed itself."""
    return _Sight(plan, Mode.HYBRID, replica, standing, computed)._inputs(stage)


class _Sight:
    """What one replica sees."""

    def __init__(
        self,
        plan: Plan,
        mode: Mode,
        replica: int,
        standing: Standing,
        computed: Mapping[str, Computed],
    ) -> None:
        self.plan = plan
        self.mode = mode
        self.replica = replica
        self.verdicts = standing.verdicts
        self.computed = computed

    def step(self, stage: str) -> Compute | None:
        if not self._is_wanted(stage):
            return None
        inputs: dict[str, tuple[Input, ...]] = {}
        for parent in self.plan.parents(stage):
            if not self._is_ready(parent):
                return None
            inputs[parent] = self._inputs(parent)
        step = Compute(stage, self.verdicts[stage].run, inputs, self.plan.pins)
        done = self.computed.get(stage)
        if done is None or done.run != step.run:
            return step
        # What was computed from a slice that was outvoted later is computed again. Where nothing
        # blocks it stays as it is: that is what corrupts what follows, and begins the job again.
        is_tainted = self.mode is not Mode.NON_BLOCKING and done.digests != step.digests
        return step if is_tainted else None

    def is_stale(self, step: Compute) -> bool:
        if self.verdicts[step.stage].run != step.run:
            return True
        if self.mode is Mode.NON_BLOCKING:
            return False
        return any(
            not self._is_ready(parent) or [each.digest for each in self._inputs(parent)] != digests
            for parent, digests in ((name, list(each)) for name, each in step.digests.items())
        )

    def _is_wanted(self, stage: str) -> bool:
        """Whether it is not agreed upon, and somebody waits for it."""
        children = self.plan.children(stage)
        return not self._is_ok(stage) and (
            not children or any(not self._is_ok(child) for child in children)
        )

    def _is_ready(self, parent: str) -> bool:
        """Whether a stage may start from this parent."""
        if self._is_ok(parent):
            return True
        done = self.computed.get(parent)
        if self.mode is Mode.BLOCKING or done is None or done.run != self.verdicts[parent].run:
            return False
        if self.mode is Mode.NON_BLOCKING:
            return True
        return all(map(self._is_ok, self.plan.parents(parent))) and self.step(parent) is None

    def _is_ok(self, stage: str) -> bool:
        return self.verdicts[stage].is_ok

    def _inputs(self, parent: str) -> tuple[Input, ...]:
        agreed = self.verdicts[parent].slices
        own = self.computed.get(parent)
        inputs = []
        for number in range(self.plan.slices):
            if number in agreed:
                inputs.append(self._redirected(agreed[number]))
            else:
                assert own is not None
                mine = own.slices[number]
                inputs.append(Input(mine.digest, mine.rows, mine.holders, verified=False))
        return tuple(inputs)

    def _redirected(self, agreed: Agreed) -> Input:
        """Its own copy first; those without one spread over those who have one."""
        holders = sorted(agreed.holders, key=lambda holder: holder.replica)
        own = next((i for i, each in enumerate(holders) if each.replica == self.replica), None)
        first = self.replica % len(holders) if own is None else own
        order = (*holders[first:], *holders[:first])
        return Input(agreed.digest, agreed.rows, order, verified=True)


@dataclass(frozen=True, slots=True)
class Rules:
    mode: Mode = Mode.HYBRID
    retries: int = 3
    """How often a stage is computed again, or the whole job in mode non-blocking."""
    patience: float = 300.0
    """Seconds that a replica may be behind when as many as must agree have reported a slice, and
    seconds to wait for replicas to come back when too few are left. Longer than a stage takes."""
    limit: float | None = None
    """Seconds without any news after which the job has failed."""
    shared_hosts: bool = False
    """Whether replicas may share a host; for development."""
    own_files: bool = False
    """Whether only a replica itself can write where its files lie. If not, nobody is accused for a
    file that is wrong: another one may have changed it."""
    pools: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """The hosts where each replica is to run; one without a pool may run anywhere."""

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise InvalidArgumentError(f"retries: {self.retries} is too few; give 0 or more")
        if self.patience <= 0:
            raise InvalidArgumentError(f"patience: {self.patience:g} is too short; give more")
        if self.limit is not None and self.limit <= 0:
            raise InvalidArgumentError(f"limit: {self.limit:g} is too short; give more")
