"""Measurements of an edge of real processes: rates, cost, latency under failure, traffic."""
