"""Long seeded fault campaigns: `make soak`, or `python -m soak CAMPAIGN` for one.

A campaign is a module of `soak.campaigns` with `DESCRIPTION: str` and `run(seed: int) -> str`.
"""
