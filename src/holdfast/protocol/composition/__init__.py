"""Streams that tenants compose: documents, the graph they span, and how an update settles in it.

`tenants` carries it: it keeps the documents and updates, gives out work to Spark and talks HTTP.
"""
