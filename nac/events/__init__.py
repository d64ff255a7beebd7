"""What Admit tells others: one form of JSON for every kind of event, for the live log, syslog and webhooks.

Fields carry the names of the Elastic Common Schema; what it has no name for is below `admit`. They are listed in
docs/reference/events.md. `document.py` generates docs/reference/events.schema.json.
"""
