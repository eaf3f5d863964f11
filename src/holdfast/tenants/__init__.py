"""Many users of one running system: each publishes streams, derives new ones from their own and
others', and subscribes, without a restart. `holdfast serve` runs it."""
