"""Draws the pictures of docs/approximation.md from real shadows (`make pictures`)."""

from pathlib import Path
from random import Random

from holdfast.shadow.picture import draw_shadow
from holdfast.windows import monoids as m
from holdfast.windows import policies
from holdfast.windows.approximation import Method, Shadow, max_error, max_leaves

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
WINDOW = 10_000


def load(length: int) -> list[float]:
    """Percent of a machine in use: a slow wave, jobs that come and go, noise."""
    random = Random(7)
    jobs = [0.0]
    for _ in range(length):
        jobs.append(random.uniform(0, 30) if random.random() < 0.002 else jobs[-1])
    return [40 + 0.5 * job + random.gauss(0, 2) for job in jobs[1:]]


def draw(name: str, method: Method | list[Method]) -> None:
    shadow = Shadow(m.mean, method, policies.last(WINDOW))
    shadow.feed(load(5 * WINDOW))
    draw_shadow(shadow, PICTURES / f"{name}.svg")


def main() -> None:
    draw("shadow-max-error", max_error("1%"))
    draw("shadow-max-leaves", max_leaves(100))


if __name__ == "__main__":
    main()
