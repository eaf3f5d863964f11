"""Where everything that tenants have lies: SQLite in a file, or PostgreSQL."""
