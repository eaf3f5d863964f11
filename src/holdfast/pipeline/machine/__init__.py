"""State machines that keep replicated stages available and correct, without IO.

Events go in, commands come out; a shell or the simulator carries them. Time and randomness are
arguments.
"""
