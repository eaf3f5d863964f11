"""Verified execution: replicas of a job that check each other. Imported, it loads no Spark."""
