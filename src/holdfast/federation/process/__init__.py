"""A participant of a federation: its file, its load manager as a process, its ledger."""
