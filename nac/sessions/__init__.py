"""Sessions and their logs: accounting, decisions, CoA requests."""
