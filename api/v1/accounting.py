"""What NASes have told of sessions, request by request, and what was used."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query
from pydantic import BaseModel, Field

from api.access import Access, ReadsTenant
from api.state import kept_usage_of
from api.v1.keys import Mac, SiteSlug, User
from api.v1.log_pages import LogPage, Since, Until, log_page, looked
from api.v1.moments import PastMoment
from api.v1.paging import MOST, SortedPaging, sorted_by_time
from nac.accounting import service as accounting
from nac.accounting.service import LoggedAccounting
from nac.accounts.permissions import Permission
from nac.clock import utc_now
from nac.mac import display_mac
from nac.sessions.usage import UsageDimension, UsageRow, list_usage

router = APIRouter(prefix="/tenants/{tenant}", tags=["accounting"])

Reads = Annotated[Access, Depends(ReadsTenant(Permission.LOG_READ))]
ReadsUsage = Annotated[Access, Depends(ReadsTenant(Permission.USAGE_READ))]


class AccountingRecord(BaseModel):
    """An Accounting-Request that was acknowledged (RFC 2866)."""

    id: str = Field(examples=["1767225600000000-4711"], description="Id; it stays.")
    at: datetime = Field(description="When it happened.")
    status_type: str = Field(description="Acct-Status-Type: Start, Stop, Interim-Update ...")
    session_id: str = Field(description="Acct-Session-Id (RFC 2866 5.5).")
    mac: str | None = Field(description="MAC address of the device, such as 00:00:5e:00:53:01.")
    user: str = Field(description='User name; null or "" where there is none.')
    nas: str = Field(description="Name of the NAS or, where it is not registered, what it says of itself.")
    nas_address: str | None = Field(description="IP address of the NAS.")
    site: str | None = Field(
        description='Slug of the site; null or "" where it belongs to none, or to one that is gone.'
    )
    seconds: int | None = Field(
        description="Acct-Session-Time: for how many seconds the session has lasted; null where it was not told."
    )
    input_octets: int | None = Field(description="Octets that came from the device.")
    output_octets: int | None = Field(description="Octets that went to the device.")
    cause: str = Field(description='Acct-Terminate-Cause; "" where there is none.')


class AccountingRecordDetail(AccountingRecord):
    attributes: list[Any] = Field(description="Pairs of name and value, in order, as they were received.")


class Usage(BaseModel):
    what: str = Field(
        description="Of an hour its beginning, of a device its MAC address, of a NAS its name, of a site "
        'its slug; "" for none.'
    )
    sessions: int = Field(description="How many sessions.")
    seconds: int = Field(description="How many seconds it lasted.")
    input_octets: int = Field(description="Octets that came from the device.")
    output_octets: int = Field(description="Octets that went to the device.")


class UsageReport(BaseModel):
    items: list[Usage] = Field(description="Sums, the largest first.")
    as_of: datetime = Field(description="What NASes had reported by then is in it: of a large tenant, some time ago.")


@router.get("/accounting", operation_id="listAccounting")
def list_accounting(
    access: Reads,
    paging: Annotated[SortedPaging, Depends(sorted_by_time("at"))],
    mac: Mac = "",
    user: User = "",
    nas: Annotated[str, Query(max_length=253, description="Told by this NAS: its name or address.")] = "",
    site: SiteSlug = "",
    session_id: Annotated[str, Query(max_length=253, description="Of this Acct-Session-Id.")] = "",
    status_type: Annotated[str, Query(max_length=100, description="Such as Start, Stop or Interim-Update.")] = "",
    since: Since = None,
    until: Until = None,
) -> LogPage[AccountingRecord]:
    """What the filters leave out is looked through page by page."""
    stretch = looked(paging, since, until)
    with access.read() as session:
        found = accounting.search_accounting(
            session,
            tenant_id=access.tenant_id,
            mac=mac,
            user=user,
            nas=nas,
            site=site,
            session_id=session_id,
            status_type=status_type,
            **stretch,
        )
        return log_page(paging, found, lambda logged: AccountingRecord(**_shown(logged)))


@router.get("/accounting/{record}", operation_id="getAccountingRecord")
def get_accounting_record(access: Reads, record: Annotated[str, Path(max_length=40)]) -> AccountingRecordDetail:
    with access.read() as session:
        logged = accounting.require_accounting(session, tenant_id=access.tenant_id, reference=record)
    return AccountingRecordDetail(**_shown(logged), attributes=logged.log.attributes)


@router.get("/usage", operation_id="listUsage")
def list_used(
    access: ReadsUsage,
    by: UsageDimension = "hour",
    since: Annotated[PastMoment | None, Query(description="From the hour of that on; a day otherwise.")] = None,
    until: Annotated[PastMoment | None, Query(description="Up to the hour of that.")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST, description="The largest so many.")] = MOST,
) -> UsageReport:
    """What was used, in the hours in which NASes reported it; the largest first, hours in their order.

    `as_of` tells of when it is: what took longer than 0.1 s to add up is given again for a hundred times as long, ten
    minutes at most.
    """
    first = _hour_of(since or utc_now() - timedelta(days=1))
    # Of an hour that has begun before `until` all is told: one answer for all moments of it.
    last = until and _hour_of(until - timedelta(microseconds=1)) + timedelta(hours=1)

    def add_up() -> Sequence[UsageRow]:
        with access.read() as session:
            return list_usage(session, tenant_id=access.tenant_id, by=by, since=first, until=last, limit=limit)

    found = kept_usage_of(access.asked.request).get((access.tenant_id, by, first, last, limit), add_up)
    return UsageReport(items=[_used(use, by) for use in found.value], as_of=found.as_of)


def _hour_of(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def _used(use: UsageRow, by: UsageDimension) -> Usage:
    return Usage(
        what=display_mac(use.what) if by == "endpoint" and use.what else use.what,
        sessions=use.sessions,
        seconds=use.seconds,
        input_octets=use.input_octets,
        output_octets=use.output_octets,
    )


def _shown(logged: LoggedAccounting) -> dict[str, Any]:
    log = logged.log
    return {
        "id": logged.reference,
        "at": log.at.astimezone(UTC),
        "status_type": log.status_type,
        "session_id": log.session_id,
        "mac": display_mac(log.mac) if log.mac else None,
        "user": log.identity,
        "nas": logged.nas,
        "nas_address": log.nas_address,
        "site": logged.site or None,
        "seconds": log.session_seconds,
        "input_octets": log.input_octets,
        "output_octets": log.output_octets,
        "cause": log.terminate_cause,
    }
