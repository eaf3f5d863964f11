"""Windows near the sensors: sensors, children that replicate, intermediates and the root."""
