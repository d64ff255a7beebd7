"""Fills the replica from PostgreSQL and follows its changes."""
