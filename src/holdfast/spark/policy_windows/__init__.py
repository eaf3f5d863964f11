"""Programmable windows on Spark: one for each key, slid by a policy after every row.

`holdfast.spark.dataframe` calls `policy_window` where it is given a policy.
"""

from holdfast.spark.policy_windows.call import policy_window

__all__ = ["policy_window"]
