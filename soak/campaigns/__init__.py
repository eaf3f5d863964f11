"""One module per campaign, each with `DESCRIPTION` and `run(seed)`: one case, decided by its seed.

`run` returns a short line about what happened and raises when something is wrong.
A campaign that starts Spark says `USES_SPARK = True`.
"""
