"""Events: one JSON format for the live log, syslog and webhooks.

Field names are those of the Elastic Common Schema; other fields are below `admit`. docs/reference/events.md lists
them. `document.py` generates docs/reference/events.schema.json.
"""
