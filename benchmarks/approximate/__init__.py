"""The pieces of the part `approximate`: streams, scenarios, trials of one setting, their scale."""
