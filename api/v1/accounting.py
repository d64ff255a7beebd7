"""Accounting records of NASes, and usage totals."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import Depends, Path, Query
from pydantic import BaseModel, Field

from api.access import Access, ReadsTenant
from api.application_state import get_usage_cache
from api.routes import NounRouter
from api.v1.list_parameters import LogPage, Mac, Since, SiteSlug, Until, User, build_log_page, build_log_range
from api.v1.paging import MAX_ROWS, SortedPaging, require_time_paging
from api.v1.timestamps import PastMoment
from nac.kit.clock import utc_now
from nac.kit.mac import display_mac
from nac.kit.permissions import Permission
from nac.sessions import accounting
from nac.sessions.accounting import LoggedAccounting
from nac.sessions.usage import UsageDimension, UsageRow, list_usage

router = NounRouter(
    prefix="/tenants/{tenant}",
    tag="accounting",
    description="Accounting log with the records as received from NASes, and usage totals.",
)

Reads = Annotated[Access, Depends(ReadsTenant(Permission.LOG_READ))]
ReadsUsage = Annotated[Access, Depends(ReadsTenant(Permission.USAGE_READ))]


class AccountingRecord(BaseModel):
    """An acknowledged Accounting-Request (RFC 2866)."""

    id: str = Field(examples=["1767225600000000-4711"], description="Permanent id of the accounting record.")
    at: datetime = Field(description="Time of the event that the NAS reported.")
    status_type: str = Field(description="Acct-Status-Type of the record, such as Start, Stop or Interim-Update.")
    session_id: str = Field(description="Acct-Session-Id of the record (RFC 2866 5.5).")
    mac: str | None = Field(description="MAC address of the device, such as 00:00:5e:00:53:01.")
    user: str = Field(description='User name in the record; "" if the record has no user name.')
    nas: str = Field(
        description="Name of the NAS that sent the record. If the NAS is not registered: its NAS-Identifier or address."
    )
    nas_address: str | None = Field(description="IP address of the NAS that sent the record.")
    site: str | None = Field(description="Slug of the site of the NAS; null if the site is unknown or deleted.")
    seconds: int | None = Field(
        description="Duration of the session in seconds (Acct-Session-Time); null if not reported."
    )
    input_octets: int | None = Field(description="Number of octets that the NAS received from the device.")
    output_octets: int | None = Field(description="Number of octets that the NAS sent to the device.")
    cause: str = Field(description='Acct-Terminate-Cause of the record; "" if absent.')


class AccountingRecordDetail(AccountingRecord):
    attributes: list[Any] = Field(
        description="Attributes of the Accounting-Request as pairs of name and value, in the received order."
    )


class Usage(BaseModel):
    what: str = Field(
        examples=["main"],
        description=(
            'Key of the usage total: start of the hour, MAC address, user name, NAS name or site slug; "" if none.'
        ),
    )
    sessions: int = Field(description="Number of sessions in the total.")
    seconds: int = Field(description="Total duration of the sessions in seconds.")
    input_octets: int = Field(description="Total number of octets that NASes received from the devices.")
    output_octets: int = Field(description="Total number of octets that NASes sent to the devices.")


class UsageReport(BaseModel):
    items: list[Usage] = Field(
        description=(
            "Usage totals. Hours are in chronological order. Devices, users, NASes and sites begin with the "
            "largest total."
        )
    )
    as_of: datetime = Field(description="Time up to which the totals include accounting records of NASes.")


@router.get("/accounting", operation_id="listAccounting")
def list_accounting(
    access: Reads,
    paging: Annotated[SortedPaging, Depends(require_time_paging("at"))],
    mac: Mac = "",
    user: User = "",
    nas: Annotated[str, Query(max_length=253, description="Name or address of the NAS that sent the records.")] = "",
    site: SiteSlug = "",
    session_id: Annotated[str, Query(max_length=253, description="Acct-Session-Id of the records.")] = "",
    status_type: Annotated[
        str,
        Query(max_length=100, description="Acct-Status-Type of the records, such as Start, Stop or Interim-Update."),
    ] = "",
    since: Since = None,
    until: Until = None,
) -> LogPage[AccountingRecord]:
    """List accounting records.

    With filters, each request searches a limited part of the log. So a page can have fewer items than `limit` and still
    have a `next`.
    """
    stretch = build_log_range(paging, since, until)
    with access.read() as session:
        logs = accounting.search_accounting(
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
        return build_log_page(paging, logs, lambda logged: AccountingRecord(**_describe_record(logged)))


@router.get("/accounting/{record}", operation_id="getAccountingRecord")
def get_accounting_record(
    access: Reads,
    record: Annotated[
        str, Path(max_length=40, examples=["1767225600000000-1"], description="Id of the accounting record.")
    ],
) -> AccountingRecordDetail:
    """Get an accounting record, with all attributes as received."""
    with access.read() as session:
        logged = accounting.require_accounting(session, tenant_id=access.tenant_id, reference=record)
    return AccountingRecordDetail(**_describe_record(logged), attributes=logged.log.attributes)


@router.get("/usage", operation_id="listUsage")
def list_used(
    access: ReadsUsage,
    by: Annotated[
        UsageDimension, Query(description="Kind of the totals: by hour, device, user, NAS or site.")
    ] = "hour",
    since: Annotated[
        PastMoment | None,
        Query(description="Start of the period of the totals, rounded down to the hour. Default: one day ago."),
    ] = None,
    until: Annotated[
        PastMoment | None, Query(description="End of the period of the totals, rounded up to the hour.")
    ] = None,
    limit: Annotated[
        int, Query(ge=1, le=MAX_ROWS, description="Maximum number of usage totals in the response.")
    ] = MAX_ROWS,
) -> UsageReport:
    """List usage totals by hour, device, user, NAS or site.

    Hours are in chronological order. Devices, users, NASes and sites begin with the largest total. Admit counts usage
    in the hour in which the NAS reported the usage.

    The totals include accounting records until `as_of`, which can be in the past. Admit caches totals that take longer
    than 0.1 s to compute. Admit keeps these totals for a hundred times the computing time, at most 10 minutes.
    """
    first = _round_down_to_hour(since or utc_now() - timedelta(days=1))
    # Rounded up to the hour, so that all moments of an hour share one cached result.
    last = until and _round_down_to_hour(until - timedelta(microseconds=1)) + timedelta(hours=1)

    def add_up() -> Sequence[UsageRow]:
        with access.read() as session:
            return list_usage(session, tenant_id=access.tenant_id, by=by, since=first, until=last, limit=limit)

    totals = get_usage_cache(access.asked.request).get((access.tenant_id, by, first, last, limit), add_up)
    return UsageReport(items=[_build_usage(use, by) for use in totals.value], as_of=totals.as_of)


def _round_down_to_hour(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def _build_usage(use: UsageRow, by: UsageDimension) -> Usage:
    return Usage(
        what=display_mac(use.what) if by == "endpoint" and use.what else use.what,
        sessions=use.sessions,
        seconds=use.seconds,
        input_octets=use.input_octets,
        output_octets=use.output_octets,
    )


def _describe_record(logged: LoggedAccounting) -> dict[str, Any]:
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
