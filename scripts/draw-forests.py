"""Draws the pictures of docs/windows.md from a real window (`make pictures`)."""

from pathlib import Path

from holdfast.windows import Amta, Monoid
from holdfast.windows.picture import draw

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
TOTAL = Monoid("sum", identity=0, lift=int, combine=int.__add__, lower=int)


def main() -> None:
    window = Amta(TOTAL)
    for update in (1, 3, 2, 1, 2, 1, 1, 0, 3, 1):
        window.insert(update)
    (PICTURES / "forest-before.svg").write_text(draw(window, "ten updates"))
    window.insert(4)
    (PICTURES / "forest-insert.svg").write_text(draw(window, "after a 4 came in"))
    window.evict(3)
    (PICTURES / "forest-evict.svg").write_text(draw(window, "after the oldest three left"))


if __name__ == "__main__":
    main()
