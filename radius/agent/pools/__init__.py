"""Leases addresses of pools to the cell and turns claims into leases."""
