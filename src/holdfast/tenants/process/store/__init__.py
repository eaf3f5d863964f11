"""Store of tenants: SQLite in a file, or PostgreSQL."""
