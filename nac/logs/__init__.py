"""Logs of a tenant's network: their events, feeds to other systems, exports to files, and retention."""
