"""Merges accounting records into sessions, and ends sessions that stopped reporting."""
