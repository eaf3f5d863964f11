"""Settings from TOML files: field types, problem reports, durations, addresses."""
