"""Writes docs/topology.md from the code of holdfast.pipeline.topology."""

from pathlib import Path

from holdfast.pipeline.topology.reference import write_reference

PAGE = Path(__file__).parent.parent / "docs" / "topology.md"


def main() -> None:
    PAGE.write_text(write_reference(), encoding="utf-8")


if __name__ == "__main__":
    main()
