"""What the part `votes` measures: the gates that compare replicas, without Spark behind them."""
