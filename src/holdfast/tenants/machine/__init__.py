"""Streams that tenants compose: documents, their graph, and how an update settles in it.

`tenants` carries it: it keeps the documents and updates, gives out work to Spark and talks HTTP.
"""
