"""The aggregates of a window on Spark, made for the columns of one DataFrame.

`holdfast.spark.dataframe` makes them on the driver; its stages, on the executors, turn Arrow
columns into states with them, and states into Arrow columns.
"""

from holdfast.spark.measures.choose import measure_of
from holdfast.spark.measures.measure import Measure

__all__ = ["Measure", "measure_of"]
