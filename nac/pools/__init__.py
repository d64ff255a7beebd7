"""Address pools: ranges, reservations, and claims (records that radiusd assigned an address to a device)."""
