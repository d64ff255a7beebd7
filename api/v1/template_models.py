"""Requests and responses about templates and roll-outs."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from api.change import ObservedModel
from api.v1.inputs import Input, Name, Slug, body_example
from nac.onboarding.templates import service as templates
from nac.onboarding.templates.rollouts import MAX_MINUTES, MAX_STAGES, MIN_MINUTES

_TEMPLATE_EXAMPLE = {
    "endpoint_groups": ["printers"],
    "policies": [{"slug": "office", "document": {"rules": [], "fallback": {"verdict": "deny"}}}],
    "sites": [{"slug": "main", "time_zone": "Europe/Berlin", "policy": "office"}],
    "settings": {"methods": ["eap-tls", "mab"], "replay_days": 7},
}


class Template(BaseModel):
    slug: str = Field(description="Slug of the template, which is a DNS label.")
    name: str = Field(description="Name of the template.")
    newest: int = Field(description="Number of the newest template version; 0 if the template has no version.")
    created_at: datetime = Field(description="Time when the template was created.")
    updated_at: datetime = Field(description="Time of the last change of the template.")


class TemplateInput(Input):
    slug: Slug = Field(examples=["school"], description="Slug of the template, which is a DNS label.")
    name: Name = Field("", description="Name of the template.")


class TemplateUpdate(Input):
    name: Name = Field(examples=["Schools"], description="Name of the template.")


class TemplateVersion(BaseModel):
    number: int = Field(description="Number of the template version, from 1.")
    comment: str = Field(description='Comment on the template version; "" if none.')
    created_by: str = Field(description="Actor who created the template version.")
    created_at: datetime = Field(description="Time when the template version was created.")


class TemplateVersionDetail(TemplateVersion):
    document: dict[str, Any] = Field(description="Template document of the version (docs/how-to/templates.md).")


class TemplateVersionInput(Input):
    document: dict[str, Any] = Field(
        examples=[_TEMPLATE_EXAMPLE], description="Template document of the new version (docs/how-to/templates.md)."
    )
    comment: str = Field("", max_length=1_000, description='Comment on the new version; "" if none.')


class TemplateDifference(BaseModel):
    part: str = Field(examples=["site:main.time_zone"], description="Path, in the template, of the part that differs.")
    expected: Any = Field(description="Value of the part in the template; null if the template has no value.")
    actual: Any = Field(description="Current value of the part at the tenant; null if the tenant has no value.")


class TemplateFollower(BaseModel):
    tenant: str = Field(description="Slug of the tenant that follows the template.")
    version: int | None = Field(
        description="Number of the template version last applied to the tenant; null before the first roll-out."
    )
    applied_at: datetime | None = Field(description="Time when Admit last applied a template version to the tenant.")
    overrides: list[str] = Field(
        description=("Parts that the template does not change at this tenant. A part is a complete site or one object.")
    )
    drift: list[TemplateDifference] | None = Field(
        description=(
            "Differences between the tenant and the applied template version; null without `drift` in the request."
        )
    )


class TemplateFollowerInput(Input):
    overrides: list[Annotated[str, Field(max_length=300)]] = Field(
        [],
        max_length=templates.MAX_OVERRIDES,
        examples=[["policy:office", "site:main.time_zone"]],
        description="Parts that the template does not change at this tenant. A part is a complete site or one object.",
    )


class StageInput(Input):
    """Stage of a roll-out.

    Either `tenants` lists the tenants, or `share` is a percentage of all outdated tenants, which includes the tenants
    of earlier stages.
    """

    tenants: list[Slug] | None = Field(
        None,
        max_length=10_000,
        description="Slugs of the tenants in the stage, which follow the template; null if `share` is set.",
    )
    share: int | None = Field(
        None,
        ge=1,
        le=100,
        description="Percentage of all outdated tenants that this and the earlier stages "
        "update; null if `tenants` is set.",
    )
    minutes: int = Field(
        ge=MIN_MINUTES,
        le=MAX_MINUTES,
        description="Minutes for which Admit watches the tenants of the stage before the next stage starts.",
    )


class RolloutInput(Input):
    model_config = body_example(
        {
            "version": 1,
            "stages": [{"tenants": ["hill-school"], "minutes": 60}, {"share": 100, "minutes": 60}],
            "most_moved": 0.05,
        }
    )

    version: int = Field(ge=1, le=2**31 - 1, description="Number of the template version to roll out.")
    stages: list[StageInput] = Field(
        min_length=1,
        max_length=MAX_STAGES,
        examples=[[{"tenants": ["hill-school"], "minutes": 60}]],
        description="Stages of the roll-out, in order. The last stage includes all remaining tenants.",
    )
    most_moved: float = Field(
        0.05,
        gt=0,
        le=1,
        description=(
            "Largest change, up or down, of a tenant's share of rejected devices (0 to 1). After a larger change, the"
            " roll-out stops or rolls back (`back_when_moved`)."
        ),
    )
    back_when_moved: bool = Field(
        False,
        description=(
            "Whether Admit rolls back all tenants automatically if the share of rejected devices changes by more than"
            " `most_moved`. If false, the roll-out stops."
        ),
    )


class RolloutTenant(BaseModel):
    tenant: str = Field(description="Slug of the tenant in the roll-out.")
    stage: int = Field(description="Number of the tenant's stage, from 1.")
    state: Literal["waiting", "applied", "failed", "rolled-back", "left-out"] = Field(
        description="State of the roll-out at the tenant."
    )
    detail: str = Field(description='Explanation of the state in one sentence; "" if none.')
    applied_at: datetime | None = Field(description="Time when the roll-out updated the tenant.")
    rejected_before: int | None = Field(
        description="Number of rejected devices in a period of the same length before the update."
    )
    devices_before: int | None = Field(
        description="Total number of admitted and rejected devices in a period of the same length before the update."
    )
    rejected_since: int | None = Field(description="Number of rejected devices since the update.")
    devices_since: int | None = Field(description="Total number of admitted and rejected devices since the update.")


class Rollout(BaseModel):
    id: UUID = Field(description="Permanent id of the roll-out.")
    version: int = Field(description="Number of the template version in the roll-out.")
    state: Literal["running", "stopped", "done", "rolling-back", "rolled-back"] = Field(
        description="State of the roll-out."
    )
    stage: int = Field(description="Number of the current stage, from 1.")
    stages: list[int] = Field(description="Minutes for which Admit watches each stage.")
    most_moved: float = Field(
        description=(
            "Largest change, up or down, of a tenant's share of rejected devices (0 to 1). After a larger change, the"
            " roll-out stops or rolls back (`back_when_moved`)."
        )
    )
    back_when_moved: bool = Field(
        description="Whether the roll-out rolls back automatically if the share of rejected devices changes by more "
        "than `most_moved`."
    )
    job_id: UUID | None = Field(
        description="Id of the MSP's job that runs the roll-out. If the job ends, the roll-out stops."
    )
    detail: str = Field(description='Reason why the roll-out stopped; "" if not stopped.')
    requested_by: str = Field(description="Actor who started the roll-out, such as token:setup.")
    created_at: datetime = Field(description="Time when the roll-out was created.")
    ended_at: datetime | None = Field(description="Time when the roll-out ended; null if the roll-out has not ended.")


class RolloutDetail(Rollout, ObservedModel):
    tenants: list[RolloutTenant] = Field(description="State of the roll-out at each tenant.")

    def observed_fields(self) -> set[str]:
        """Return the fields that the roll-out's job updates."""
        return {"stage", "tenants", "detail"} if self.state in ("running", "rolling-back") else set()
