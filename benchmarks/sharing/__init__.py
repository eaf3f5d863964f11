"""What it costs to let colleagues know of a tuple: records against copies."""

from benchmarks.sharing.costs import crossover, overhead, table

__all__ = ["crossover", "overhead", "table"]
