"""Events: JSON objects in one format for live events, syslog and webhooks.

Field names follow the Elastic Common Schema; fields that the schema lacks are below `admit`. docs/reference/events.md
lists all fields. `schema.py` generates docs/reference/events.schema.json.
"""
