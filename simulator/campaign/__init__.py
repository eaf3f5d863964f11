"""Campaigns of simulations: many seeds on all cores, or one with its trace and picture."""
