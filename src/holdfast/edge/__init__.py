"""The edge tier as processes: sensors, child nodes, intermediates and the root.

What they do is decided by the machines of `holdfast.protocol.edge`; here are the frames and sockets
that carry their messages, the file that names them all, and the commands that run them. Nothing in
a sensor, a child or an intermediate loads Spark, Arrow or pandas.
"""
