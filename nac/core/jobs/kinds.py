"""Kinds of jobs. Services start them and the worker selects a handler by these names."""

from typing import Literal

JobKind = Literal[
    "bulk.run",
    "import.run",
    "policies.publish",
    "policies.replay",
    "templates.roll-out",
    "tenants.export",
    "tenants.import",
]
