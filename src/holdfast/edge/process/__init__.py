"""Processes of the edge: sensors, children, intermediates and the root."""
