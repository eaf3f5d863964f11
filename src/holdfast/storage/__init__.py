"""Files that survive crashes and power failures, and rows as checked Arrow chunks."""
