"""Address pools: ranges, reservations, and records of used addresses (claims)."""
