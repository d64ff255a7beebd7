"""Address pools: ranges, reservations and claims."""
