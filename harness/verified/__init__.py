"""Verified jobs, to be broken: replicas that lie, with Spark and without."""
