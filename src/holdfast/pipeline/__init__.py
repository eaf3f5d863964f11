"""Topologies: replicated stages on Spark that stay available and correct."""
