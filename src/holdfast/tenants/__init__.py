"""Tenants: many users of one running system publish streams and derive new ones."""
