"""Peers that the part `windows` measures AMTA against."""
