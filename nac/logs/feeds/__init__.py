"""Feeds: a tenant's events for its syslog server or webhook, at least once, read from the database."""
