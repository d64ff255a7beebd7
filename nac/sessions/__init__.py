"""Sessions and their logs: accounting, decisions, and CoA requests."""
