"""One scenario: which it is on the command line, and with which of its faults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.errors import InvalidArgumentError
from simulator.scenario import Options, Scenario, draw_scenario


@dataclass(frozen=True, slots=True)
class Replay:
    """A seed, and the numbers of the faults that are to happen; all if there are none given."""

    seed: int
    options: Options
    keep: tuple[int, ...] | None = None

    def scenario(self) -> Scenario:
        """The scenario with these faults."""
        drawn = draw_scenario(self.seed, self.options)
        if self.keep is None:
            return drawn
        for number in self.keep:
            if not 0 <= number < len(drawn.faults):
                raise InvalidArgumentError(
                    f"keep: there is no fault {number} in seed {self.seed}, which has "
                    f"{len(drawn.faults)}; leave out --keep to see them with their numbers"
                )
        return drawn.with_faults([drawn.faults[number] for number in self.keep])

    def numbers(self) -> Sequence[int]:
        """The number of each fault of the scenario."""
        if self.keep is not None:
            return self.keep
        return range(len(draw_scenario(self.seed, self.options).faults))

    def command(self) -> str:
        """What to type to see it again."""
        options = self.options
        words = f"python -m simulator --seed {self.seed} --policy {options.policy}"
        words += f" --topology {options.topology} --faults {options.faults}"
        if self.keep is not None:
            words += f" --keep {','.join(map(str, self.keep)) or 'none'}"
        return words


def parse_keep(text: str) -> tuple[int, ...]:
    """Numbers of faults as they are written on the command line: `0,3`, or `none`."""
    if text.strip() == "none":
        return ()
    try:
        return tuple(sorted({int(number) for number in text.split(",")}))
    except ValueError:
        raise InvalidArgumentError(
            f"keep: {text!r} are no numbers of faults; give them like 0,3,5, or none"
        ) from None
