"""Feeds: deliver a tenant's events from the database to its syslog server or webhook, at least once."""
