"""An AMTA as a picture: its forest, stack and result pair, drawn as SVG.

For documentation and for people who want to see what a window holds; never read back.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

from holdfast.windows.amta import Amta
from holdfast.windows.monoid import HOLE

__all__ = ["draw"]

CELL, HEIGHT, GAP, ROW, MARGIN = 44, 30, 12, 74, 24
FIRST_COLUMN = 96
STYLE = (
    "text{font:14px sans-serif;text-anchor:middle;dominant-baseline:central;fill:#1f2933}"
    ".label{text-anchor:start;fill:#52606d}.title{text-anchor:start;font-weight:600}"
    ".live{fill:#e3f2fd;stroke:#1565c0}.tail{fill:#fff3d6;stroke:#b7791f}"
    ".hole{fill:none;stroke:#9aa5b1;stroke-dasharray:4 3}"
    ".stale{fill:#eceff1;stroke:#9aa5b1}text.on-stale{fill:#9aa5b1}"
    ".edge{stroke:#9aa5b1;stroke-width:1.5;fill:none}"
)


def draw(window: Amta[Any, Any, Any], title: str = "", show: Callable[[Any], str] = str) -> str:
    """The window as an SVG document; `show` makes a state short enough for a cell.

    Blue: interior pairs. Amber: tail pairs, each the root of its own tree. Grey: values that
    went stale when leaves below them left. Dashed: holes.
    """
    forest = window.forest()
    first_leaf = window.evicted // 2 * 2
    left = _places(window, forest, first_leaf)
    height = MARGIN * 2 + ROW * (len(forest) + 1)
    drawn: list[str] = []

    def top(level: int) -> int:
        return MARGIN + ROW * (len(forest) - level) - HEIGHT

    for (level, position), x_pair in left.items():
        pair = forest[level][position - (window.evicted >> level + 1)]
        is_tail = (level, position + 1) not in left
        for side, state in enumerate(pair):
            element, x, y = 2 * position + side, x_pair + side * CELL, top(level)
            stale = level > 0 and element << level < window.evicted
            kind = "hole" if state is HOLE else "stale" if stale else "tail" if is_tail else "live"
            box = f'<rect class="{kind}" x="{x:g}" y="{y}" width="{CELL}" height="{HEIGHT}"/>'
            drawn.append(box)
            if state is HOLE:
                continue
            drawn.append(_text(x + CELL / 2, y + HEIGHT / 2, show(state), f"on-{kind}"))
            if level > 0:
                start, end = x + CELL / 2, left[level - 1, element] + CELL
                line = f"M{start:g} {y + HEIGHT}L{end:g} {top(level - 1)}"
                drawn.append(f'<path class="edge" d="{line}"/>')
    for level in range(len(forest)):
        drawn.append(_text(8, top(level) + HEIGHT / 2, f"level {level}", "label"))
    root = window.root
    shown = [_shown(state, show) for state in (root.front, root.back, window.aggregate())]
    stack = " ".join(map(show, root.stack)) or "empty"
    legend = "stack {}  \u2003R0 {}  \u2003R1 {}  \u2003result {}".format(stack, *shown)
    drawn.append(_text(8, height - MARGIN, legend, "label"))
    drawn.append(_text(8, MARGIN / 2 + 4, title, "title"))
    widest = max((x + 2 * CELL for x in left.values()), default=0)
    width = max(widest + MARGIN, 20 + 8 * max(len(legend), len(title)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height}" '
        f'viewBox="0 0 {width:g} {height}" role="img" aria-label="{escape(title)}">'
        f'<style>{STYLE}</style><rect width="100%" height="100%" fill="#ffffff"/>'
        f"{''.join(drawn)}</svg>\n"
    )


def _places(
    window: Amta[Any, Any, Any], forest: list[list[Any]], first_leaf: int
) -> dict[tuple[int, int], float]:
    """The left edge of each pair by (level, position): its live elements sit above their leaves."""

    def leaf_edge(number: int) -> int:
        return FIRST_COLUMN + (number - first_leaf) * CELL + (number - first_leaf) // 2 * GAP

    places = {}
    for level, pairs in enumerate(forest):
        for position, pair in enumerate(pairs, window.evicted >> level + 1):
            live = [side for side in (0, 1) if pair[side] is not HOLE]
            first, last = 2 * position + live[0], 2 * position + live[-1]
            oldest = max(first << level, first_leaf)
            newest = min((last + 1) << level, window.position) - 1
            middle = (leaf_edge(oldest) + leaf_edge(newest) + CELL) / 2
            places[level, position] = middle - CELL * (live[0] + len(live) / 2)
    return places


def _shown(state: Any, show: Callable[[Any], str]) -> str:
    return "·" if state is HOLE else show(state)


def _text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(words)}</text>'
