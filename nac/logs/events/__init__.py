"""Events: one JSON format for the live log, syslog and webhooks.

Field names follow the Elastic Common Schema; fields that the schema lacks are below `admit`.
docs/reference/events.md lists all fields. `schema.py` generates docs/reference/events.schema.json.
"""
