"""What `make bench PART=federation` and `PART=federation-moving` measure."""
