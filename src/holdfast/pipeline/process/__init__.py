"""Processes of a topology: sources, replicas of stages and readers, around their machines.

A party is a shell: one thread runs the state machine (`runtime.loop`), links and servers of
`holdfast.transport` put messages into it, disks and Spark carry out its commands.
"""
