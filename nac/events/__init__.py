"""What Admit tells others: one form of JSON for every kind of event, for the live log, syslog and webhooks.

Fields carry the names of the Elastic Common Schema; what it has no name for is below `admit`. docs/events.md lists
them, docs/events.schema.json is made of `document.py`.
"""
