"""Windowed jobs on Spark in processes of their own, to be killed and compared."""
