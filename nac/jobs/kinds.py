"""What there is to do as a job: by these names its noun enters it and the worker knows it."""

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
