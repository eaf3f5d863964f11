"""Processes of verified jobs: coordinator, verifiers, replicas."""
