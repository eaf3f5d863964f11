"""Drives the pure layer under faults, in virtual time, from one seed."""
