"""Four stages of every update: dispatch, fetch, operate, store and emit.

One streaming query of Spark runs them; the graph of streams is data that it reads for each batch.
"""
