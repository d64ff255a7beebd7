"""Health of all tenants that the caller can see."""

from datetime import datetime
from typing import Annotated, Literal, cast

from fastapi import Depends, Query
from pydantic import BaseModel, Field

from api.access import RequiresSelf
from api.caller import Caller
from api.routes import NounRouter
from api.v1.paging import ComputedPaging, Page, require_computed_paging
from nac.kit.permissions import Permission
from nac.models.tenant import TenantStatus
from nac.tenancy.tenants import health
from nac.tenancy.tenants.health import HealthOrder, HourCounts

router = NounRouter(tag="tenant health", description="Health of all tenants at a glance.")

# The type of each order's values.
_ORDERS: dict[HealthOrder, type] = {"name": str, "requests": int, "reject_rate": float, "silent_nases": int}
_NEEDS_LOG = "null without the permission `log.read`"


class HourlyRequests(BaseModel):
    permitted: int = Field(examples=[118], description="Number of admitted requests, also to the quarantine.")
    rejected: int = Field(examples=[7], description="Number of rejected requests.")


class TenantHealth(BaseModel):
    slug: str = Field(examples=["hill-school"], description="Slug of the tenant.")
    name: str = Field(examples=["Hill School"], description="Name of the tenant.")
    msp: str | None = Field(examples=["acme"], description="Slug of the tenant's MSP; null if you cannot read the MSP.")
    state: Literal["active", "trial", "suspended", "deleting"] = Field(
        examples=["active"], description="State of the tenant. `trial` is an active tenant with a running trial."
    )
    trial_ends_at: datetime | None = Field(description="End of the running trial; null if none.")
    hours: list[HourlyRequests] | None = Field(
        description=(
            "Requests in each of the last 24 hours (UTC), oldest first; the last hour is not over. "
            f"{_NEEDS_LOG.capitalize()}."
        )
    )
    permitted_24h: int | None = Field(
        examples=[2204], description=f"Number of admitted requests in `hours`; {_NEEDS_LOG}."
    )
    rejected_24h: int | None = Field(
        examples=[96], description=f"Number of rejected requests in `hours`; {_NEEDS_LOG}."
    )
    reject_rate: float | None = Field(
        examples=[0.0417],
        description=f"Share of rejected requests in `hours`, from 0 to 1; null without requests; {_NEEDS_LOG}.",
    )
    last_request_at: datetime | None = Field(
        description="Start of the minute of the last request; after two days, start of the hour; null if there was no "
        f"request within 90 days; {_NEEDS_LOG}."
    )
    nases: int | None = Field(
        examples=[12], description="Number of registered NASes; null without the permission `nas.read`."
    )
    silent_nases: int | None = Field(
        examples=[1],
        description="Number of registered NASes whose last request came within the last 30 days, but more than 60 "
        "minutes ago; null without the permission `nas.read`.",
    )
    expiring_certificates: int | None = Field(
        examples=[3],
        description="Number of valid certificates that expire within 30 days and have no newer certificate with the "
        "same name and profile; at most 5,000; null without the permission `certificate.read`.",
    )


@router.get("/tenant-health", operation_id="listTenantHealth")
def list_tenant_health(
    asked: Annotated[Caller, Depends(RequiresSelf())],
    paging: Annotated[ComputedPaging, Depends(require_computed_paging(cast(dict[str, type], _ORDERS)))],
    msp: Annotated[str, Query(max_length=63, description="Slug or id of the MSP of the tenants to list.")] = "",
    text: Annotated[str, Query(max_length=200, description="Part of the slug or name of the tenants to list.")] = "",
) -> Page[TenantHealth]:
    """List the health of all tenants that you can read, of any MSP.

    The list has the same tenants as `listDiscoveredTenants`. Fields about requests, NASes and certificates are null for
    tenants at which you lack the permission to read them. Tenants without a value of the sort order are last. The
    values can change between two pages, so a tenant can be missing from the list or appear twice.
    """
    has_two = asked.signed_in is None or asked.signed_in.has_two_factors
    with asked.read_tenants(Permission.TENANT_READ) as (session, _):
        found = health.list_health(
            session,
            principal=asked.principal,
            order=cast(HealthOrder, paging.order),
            descending=paging.goes_down,
            limit=paging.limit,
            after=paging.key(),
            msp=msp,
            text=text,
            has_two_factors=has_two,
        )
    return paging.computed([_build_health(each) for each in found.items], found.next)


def _build_health(row: health.TenantHealth) -> TenantHealth:
    total = None if row.hours is None else HourCounts(*map(sum, zip(*row.hours, strict=True)))
    requests = sum(total) if total else 0
    return TenantHealth(
        slug=row.slug,
        name=row.name,
        msp=row.msp,
        state="trial" if row.status == "active" and row.trial_ends_at else cast(TenantStatus, row.status),
        trial_ends_at=row.trial_ends_at,
        hours=None if row.hours is None else [HourlyRequests(**each._asdict()) for each in row.hours],
        permitted_24h=total.permitted if total else None,
        rejected_24h=total.rejected if total else None,
        reject_rate=round(total.rejected / requests, 4) if total and requests else None,
        last_request_at=row.last_request_at,
        nases=row.nases,
        silent_nases=row.silent_nases,
        expiring_certificates=row.expiring_certificates,
    )
