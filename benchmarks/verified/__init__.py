"""What it costs to verify a job: whole runs of examples/billing, with and without faults."""
