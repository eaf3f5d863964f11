"""The processes of a topology: sources, replicas of stages, and readers, each with its protocol.

A party is a shell: one thread runs the protocol (`loop`), links and servers of `holdfast.wire` put
messages into it, disks and Spark do what it asks for.
"""
