"""Reserves pool addresses for the cell. Stores the addresses that radiusd assigned to devices as leases."""
