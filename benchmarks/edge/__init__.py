"""What an edge of real processes on this machine does: rates, latency under failure, traffic."""
