"""Search across tenants."""

from collections import defaultdict
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Depends, Query
from pydantic import BaseModel, Field

from api.access import RequiresSelf
from api.caller import Caller
from api.routes import NounRouter
from nac.core.access.grants import TenantReach
from nac.helpdesk import search
from nac.helpdesk.search import KIND_PERMISSIONS, MIN_CHARACTERS, SearchHit, SearchKind, SearchText
from nac.kit.errors import InvalidInput
from nac.kit.ids import TenantId
from nac.kit.permissions import Permission
from nac.tenancy.tenants import service as tenants
from nac.tenancy.tenants.service import TenantName

router = NounRouter(tag="search", description="Search across tenants by one text.")

MAX_HITS = 50
# Number of tenants that a search reads.
MAX_TENANTS = 5_000


class SearchedDecision(BaseModel):
    id: str = Field(examples=["1767225600000000-4711"], description="Permanent id of the decision.")
    at: datetime = Field(description="Time of the decision.")
    permitted: bool = Field(description="Whether Admit admitted the device.")
    verdict: str = Field(description="Verdict of the policy: permit, quarantine or deny.")
    reason: str = Field(examples=["unknown-mac"], description="Reason code of the decision.")
    title: str = Field(description="Meaning of the reason code.")
    remedy: str = Field(description='What to do about the reject; "" if nothing.')
    nas: str = Field(
        description="Name of the NAS that sent the request. If the NAS is not registered: its NAS-Identifier "
        "or address."
    )
    vlan: str = Field(description='VLAN that the decision assigned to the device; "" if none.')


class FoundItem(BaseModel):
    kind: SearchKind = Field(
        examples=["endpoint"],
        description="Kind of the item. `decision` is a device in the authentication log that is not among the "
        "devices of the tenant, or whose registration you cannot read.",
    )
    tenant: str = Field(examples=["hill-school"], description="Slug of the tenant of the item.")
    tenant_name: str = Field(examples=["Hill School"], description="Name of the tenant of the item.")
    title: str = Field(examples=["Printer, 2nd floor"], description="Name of the item.")
    detail: str = Field(
        examples=["Approved device 00:00:5e:00:53:01, profile printer"],
        description="Description of the item in one line.",
    )
    mac: str | None = Field(description="MAC address of the device, such as 00:00:5e:00:53:01.")
    user: str | None = Field(examples=["ann"], description="Name of the user, or user name of the session.")
    nas: str | None = Field(description="Name of the NAS.")
    serial: str | None = Field(description="Serial number of the certificate, in hex.")
    session: int | None = Field(examples=[4711], description="Id of the live session.")
    last_decision: SearchedDecision | None = Field(
        description="Newest decision about the device, user or certificate in the last 14 days; null if there is "
        "none, if you cannot read the authentication log of the tenant, or for other kinds."
    )


class SearchResult(BaseModel):
    items: list[FoundItem] = Field(description="Items that match the text, best first.")


@router.get("/search", operation_id="search")
def search_tenants(
    asked: Annotated[Caller, Depends(RequiresSelf())],
    text: Annotated[
        str,
        Query(
            min_length=MIN_CHARACTERS,
            max_length=253,
            examples=["00:00:5e:00:53:01"],
            description="MAC address or its first 4 digits or more, start of a user name, part of a device name (3 "
            "characters or more), start of a NAS name or NAS-Identifier, IP address of a NAS or live session, first "
            "6 digits or more of a certificate's serial number (hex), or start of its common name.",
        ),
    ],
    tenant: Annotated[str, Query(max_length=63, description="Slug or id of the only tenant to search.")] = "",
    msp: Annotated[str, Query(max_length=63, description="Slug or id of the MSP of the tenants to search.")] = "",
    limit: Annotated[int, Query(ge=1, le=MAX_HITS, description="Maximum number of items.")] = 20,
) -> SearchResult:
    """Search all tenants that you can read: devices, users, NASes, live sessions, certificates and decisions.

    The search omits the kinds that you cannot read at a tenant. Exact matches come first, then the most recent items. A
    MAC address in the authentication log of the last 14 days is found even if the device is not registered.
    """
    wanted = SearchText.parse(text)
    if len(wanted.text) < MIN_CHARACTERS:
        raise InvalidInput(
            f"The text needs at least {MIN_CHARACTERS} characters that are not blank.",
            place="text",
            remedy="Enter a longer text.",
        )
    has_two = asked.signed_in is None or asked.signed_in.has_two_factors
    kinds: dict[TenantReach, list[SearchKind]] = defaultdict(list)
    for kind, permission in KIND_PERMISSIONS.items():
        kinds[asked.principal.reach(permission)].append(kind)
    names: dict[TenantId, TenantName] = {}
    hits: list[SearchHit] = []
    logged: frozenset[TenantId] = frozenset()
    # Kinds with the same tenants share a transaction.
    for reach, each_kinds in kinds.items():
        with asked.read_tenants(KIND_PERMISSIONS[each_kinds[0]]) as (session, _):
            found = tenants.list_names(
                session, reach=reach, tenant=tenant, msp=msp, has_two_factors=has_two, limit=MAX_TENANTS
            )
            for kind in each_kinds:
                hits += search.find_hits(session, kind, wanted, tenant_ids=found.keys(), limit=limit)
        names.update(found)
        if "decision" in each_kinds:
            logged = frozenset(found)
    with asked.read_tenants(Permission.LOG_READ) as (session, _):
        hits = search.add_decisions(session, wanted, hits, tenant_ids=logged, limit=limit)
    return SearchResult(items=[_build_item(hit, names[hit.tenant_id]) for hit in hits])


def _build_item(hit: SearchHit, tenant: TenantName) -> FoundItem:
    last = hit.last_decision
    return FoundItem(
        kind=hit.kind,
        tenant=tenant.slug,
        tenant_name=tenant.name,
        title=hit.title,
        detail=hit.detail,
        mac=hit.mac,
        user=hit.user,
        nas=hit.nas,
        serial=hit.serial,
        session=hit.session,
        last_decision=last
        and SearchedDecision(
            id=last.id,
            at=last.at.astimezone(UTC),
            permitted=last.permitted,
            verdict=last.verdict,
            reason=last.reason.code,
            title=last.reason.title,
            remedy=last.reason.advice if last.verdict == "deny" else "",
            nas=last.nas,
            vlan=last.vlan,
        ),
    )
