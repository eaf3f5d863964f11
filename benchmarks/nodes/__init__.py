"""The pieces of the part `nodes`."""
