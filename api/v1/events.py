"""Streams of live events."""

from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import Depends, Header, Query
from sqlalchemy.orm import Session

from api.access import Access, ReadsTenant, RequiresSelf
from api.caller import Caller
from api.event_stream import EventStream, Slugs
from api.routes import NounRouter
from api.v1.list_parameters import Mac
from nac.core.access.grants import require_permissions
from nac.kit.errors import InvalidInput
from nac.kit.ids import TenantId
from nac.kit.permissions import Permission
from nac.kit.validation import require_mac
from nac.logs.events.event_values import format_mac
from nac.logs.events.live_stream import MAX_TENANTS, EventFilter
from nac.tenancy import sites
from nac.tenancy.nases import service as nases
from nac.tenancy.tenants import service as tenants
from nac.tenancy.tenants.repository import ORDERS
from nac.tenancy.tenants.service import TenantNotFound

router = NounRouter(tag="events", description="Live events, as they happen. docs/reference/events.md describes events.")

_MAX_NAMED_TENANTS = 100
# Milliseconds since 1970, or the id of an entry in a Redis stream. The numbers have at most 64 bits.
_POSITION = r"^([0-9]{1,15}(-[0-9]{1,18})?)?$"
_Reads = Annotated[Access, Depends(ReadsTenant(Permission.LOG_READ))]
_Kinds = Literal["authentication", "accounting", "coa", "alarm", "endpoint", "certificate"]
_Key = Annotated[str, Query(max_length=63)]
_STREAM: dict[str, Any] = {
    "response_class": EventStream,
    "status_code": 200,
    "responses": {
        200: {
            "description": "Server-sent events: one message for each event or notice.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    },
}


class StreamParameters:
    """Query parameters of event streams, as a FastAPI dependency. Raises InvalidInput."""

    def __init__(
        self,
        kind: Annotated[list[_Kinds] | None, Query(description="Kinds of the events; all kinds if omitted.")] = None,
        rejects: Annotated[bool, Query(description="Whether to send only rejects.")] = False,
        verdict: Annotated[
            Literal["permit", "quarantine", "deny"] | None, Query(description="Verdict of the decisions to send.")
        ] = None,
        mac: Mac = "",
        user: Annotated[
            str,
            Query(max_length=253, description="User name or name of the certificate in the events; case is ignored."),
        ] = "",
        most_per_second: Annotated[
            int,
            Query(
                ge=1,
                le=500,
                description="Maximum number of events in a second. Each second, a notice has the number of other "
                "events.",
            ),
        ] = 100,
        after: Annotated[
            str,
            Query(
                max_length=40,
                pattern=_POSITION,
                examples=["1767225600000-0"],
                description="`id` of the last message of an earlier stream. The stream continues after this message. "
                '"" for new events only.',
            ),
        ] = "",
        last_event_id: Annotated[
            str,
            Header(
                alias="Last-Event-ID",
                max_length=40,
                pattern=_POSITION,
                examples=["1767225600000-0"],
                description="Same as `after`, and has precedence. Browsers send this header when they reconnect.",
            ),
        ] = "",
    ) -> None:
        self.most_per_second = most_per_second
        self.after = last_event_id or after
        self.filter = EventFilter(
            kinds=frozenset(kind or ()),
            rejects=rejects,
            verdict=verdict or "",
            mac=(format_mac(require_mac(mac)) or "") if mac else "",
            user=user,
        )


_Parameters = Annotated[StreamParameters, Depends()]


@router.get("/tenants/{tenant}/events", operation_id="streamTenantEvents", **_STREAM)
def stream_tenant_events(
    access: _Reads,
    parameters: _Parameters,
    nas: Annotated[
        str, Query(max_length=253, description="Name, NAS-Identifier, address or id of the NAS of the events.")
    ] = "",
    site: Annotated[str, Query(max_length=63, description="Slug of the site of the events.")] = "",
) -> EventStream:
    """Stream the tenant's live events as server-sent events.

    The stream ends after an hour, and within ten seconds after you lose access. To continue, repeat the request with
    the last `id` as `after`.
    """
    with access.read() as session:
        slugs = {access.tenant_id: tenants.require_tenant(session, tenant_id=access.tenant_id).slug}
        wanted = replace(
            parameters.filter,
            nas=_list_nas_names(session, access.tenant_id, nas) if nas else frozenset(),
            site=str(sites.require_by_slug(session, tenant_id=access.tenant_id, slug=site).id) if site else "",
        )

    def check(caller: Caller) -> Slugs:
        access.requires.on_tenant(caller)
        return slugs

    return _build_stream(access.asked, slugs, check=check, wanted=wanted, parameters=parameters)


@router.get("/events", operation_id="streamEvents", **_STREAM)
def stream_events(
    asked: Annotated[Caller, Depends(RequiresSelf())],
    parameters: _Parameters,
    msp: Annotated[str, Query(max_length=63, description="Slug or id of the MSP of the tenants.")] = "",
    tenant: Annotated[
        list[_Key] | None,
        Query(
            max_length=_MAX_NAMED_TENANTS,
            examples=[["hill-school"]],
            description="Slugs or ids of the tenants; all of your tenants if omitted.",
        ),
    ] = None,
    nas: Annotated[
        str, Query(max_length=253, description="NAS-Identifier, address or id of the NAS of the events.")
    ] = "",
    site: Annotated[str, Query(max_length=63, description="Id of the site of the events.")] = "",
) -> EventStream:
    """Stream the live events of all tenants at which you have `log.read`.

    The stream follows changes of your tenants within ten seconds. A stream can have at most 1,000 tenants: with more
    tenants, choose `msp` or `tenant`. Apart from that, the stream works like `streamTenantEvents`.
    """

    def check(caller: Caller) -> Slugs:
        return _find_tenants(caller, msp=msp, keys=frozenset(tenant or ()))

    wanted = replace(parameters.filter, nas=frozenset([nas.lower()] if nas else ()), site=site.lower())
    return _build_stream(asked, check(asked), check=check, wanted=wanted, parameters=parameters)


def _list_nas_names(session: Session, tenant_id: TenantId, nas: str) -> frozenset[str]:
    """Return the names and ids that identify the NAS in events. Several NASes can have the same name."""
    named = nases.find_by_name(session, tenant_id, nas)
    return frozenset([nas.lower(), *(str(each.id) for each in named)])


def _find_tenants(caller: Caller, *, msp: str, keys: frozenset[str]) -> Slugs:
    """Return the tenants of the stream. Raises PermissionMissing, TenantNotFound and InvalidInput."""
    has_two = caller.signed_in is None or caller.signed_in.has_two_factors
    with caller.read_tenants(Permission.LOG_READ) as (session, reach):
        if not (reach.everything or reach.msps or reach.chosen or reach.tenants):
            require_permissions((), Permission.LOG_READ)
        rows = tenants.list_visible(
            session, reach=reach, span=ORDERS.first(MAX_TENANTS + 1), msp=msp, keys=keys, has_two_factors=has_two
        )
    missing = keys.difference(*((row.slug, str(row.id)) for row in rows))
    if missing:
        raise TenantNotFound(f"Tenant {min(missing)!r} does not exist.", place="tenant")
    if len(rows) > MAX_TENANTS:
        raise InvalidInput(
            f"The limit is {MAX_TENANTS} tenants.", place="tenant", remedy="Choose tenants with `msp` or `tenant`."
        )
    return {TenantId(row.id): row.slug for row in rows}


def _build_stream(
    caller: Caller,
    slugs: Slugs,
    *,
    parameters: StreamParameters,
    **more: Any,  # noqa: ANN401
) -> EventStream:
    return EventStream(
        caller, tenants=slugs, after=parameters.after, most_per_second=parameters.most_per_second, **more
    )
