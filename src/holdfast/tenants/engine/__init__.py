"""The four stages that every update goes through: dispatch, fetch, operate, store and emit.

One streaming query of Spark runs them; the graph of streams is data that it reads for each batch.
"""
