"""Benchmarks with claims: `make bench`, or `python -m benchmarks PART` for one part.

A part is a module of `benchmarks.parts` with `run(report: Report) -> None`.
"""
