"""Shared tools without tables: database sessions, errors, clock, ids, input checks, secrets, outbound connections."""
