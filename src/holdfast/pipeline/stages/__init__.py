"""Stages of a topology on Spark: journal, gate source, compiled steps, state, results."""
