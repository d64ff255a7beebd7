"""Feeds: a tenant's events, sent to its syslog server or webhook, at least once, from the tables that hold them."""
