"""The pieces of the part `spark-windows`: data, engines, tables and claims."""
