"""Many streams, in pairs of a simple and a composite one, most of which nobody publishes to.

Run as a program it settles one batch in a folder of them and prints the memory that took, in MB."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.tenants.site import Site
from holdfast.tenants.machine.documents import Channel, Input, Stream

__all__ = ["AT_ONCE", "active_among", "fill"]

PAIRS_OF_OBJECT = 500
AT_ONCE = 200
"""Updates of each stream that are published at once."""


def fill(site: Site, count: int) -> None:
    pairs = count // 2
    for start in range(0, pairs, PAIRS_OF_OBJECT):
        numbers = range(start, min(pairs, start + PAIRS_OF_OBJECT))
        streams = {f"s{n}": Stream({"n": Channel("number")}) for n in numbers}
        for n in numbers:
            inputs = {"a": Input(f"s{n}")}
            streams[f"c{n}"] = Stream({"n": Channel("number", "a.n * 2.0")}, inputs=inputs)
        site.put(f"o{start}", streams)


def active_among(count: int, most: int) -> list[str]:
    """Simple streams spread over all of so many."""
    pairs = count // 2
    chosen = range(0, pairs, max(1, pairs // most))[:most]
    return [f"bench/o{n - n % PAIRS_OF_OBJECT}/s{n}" for n in chosen]


def main(folder: str, count: str, active: str) -> None:
    site = Site(Path(folder))
    site.seconds(active_among(int(count), int(active)))
    print(_most_resident() / 1024)
    site.close()


def _most_resident() -> int:
    """KiB. Not `ru_maxrss`: that is no less than what the process that started this one had."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    main(*sys.argv[1:])
