"""Edge tier: replicated partial aggregates near the sensors.

What they do is decided by the machines of `holdfast.edge.machine`; here are the frames and sockets
that carry their messages, the file that names them all, and the commands that run them. Nothing in
a sensor, a child or an intermediate loads Spark, Arrow or pandas.
"""
