"""Streams that tenants compose: what an update costs, by the shape and the size of the graph."""
