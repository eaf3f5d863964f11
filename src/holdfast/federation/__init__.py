"""Federation: load that moves between participants by bounded-price contracts."""
