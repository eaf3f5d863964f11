"""The parts of `make bench PART=federation`."""
