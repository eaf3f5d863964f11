"""What keeps replicated stages available and right, as state machines without input or output.

Events go in, commands come out; a shell or the simulator carries them. Time and randomness are
arguments.
"""
