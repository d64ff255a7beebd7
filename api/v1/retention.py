"""Retention of logs, and holds."""

from datetime import date, datetime
from typing import Annotated, Any, Literal

from fastapi import Depends, Path, Query
from pydantic import BaseModel, Field

from api.access import Access, ChangesPlatform, ChangesTenant, ReadsPlatform, ReadsTenant
from api.change import Change, ObservedModel
from api.routes import NounRouter
from api.v1.inputs import Input, Omittable, body_example
from api.v1.list_parameters import RowNumber
from api.v1.paging import OrderedPaging, Page, require_paging
from nac.kit.permissions import Effect, Permission
from nac.logs.log_tables import LogLimits, LogName
from nac.logs.retention import holds, service
from nac.logs.retention.plan import LogPlan
from nac.logs.retention.repository import HOLD_ORDERS
from nac.logs.retention.service import MAX_DAYS
from nac.models import RetentionHold as RetentionHoldRow
from nac.models import RetentionNotice as RetentionNoticeRow
from nac.models.export import ExportFormat

router = NounRouter(tag="retention", description="Retention of logs, and holds that prevent the deletion of logs.")

_TENANT_PATH = "/tenants/{tenant}/retention"
_PLATFORM_PATH = "/platform/retention"
Reads = Annotated[Access, Depends(ReadsTenant(Permission.RETENTION_READ))]
Changes = Annotated[Access, Depends(ChangesTenant(Permission.RETENTION_MANAGE, Effect.ERASURE))]
ReadsLimits = Annotated[Access, Depends(ReadsPlatform(Permission.RETENTION_READ))]
ChangesLimits = Annotated[
    Access, Depends(ChangesPlatform(Permission.RETENTION_MANAGE, Effect.ERASURE, Effect.PLATFORM))
]
_Days = Annotated[int, Field(ge=1, le=MAX_DAYS)]
_Bytes = Annotated[int, Field(ge=1, le=1 << 60)]
_Hold = Annotated[RowNumber, Path(description="Id of the hold.")]
_Log = Annotated[LogName, Path(description="Name of the log.")]


class RetentionNotice(BaseModel):
    """Warning about an early deletion of log rows, a deletion after a change, or a deletion delayed by an export."""

    log: str = Field(description="Name of the log that the warning is about.")
    kind: str = Field(
        description=(
            "Reason of the warning: size of the log (budget), pending change of the retention (change), or "
            "missing export, which delays the deletion (export)."
        )
    )
    since: datetime = Field(description="Time when the reason of the warning began.")
    expected_on: date | None = Field(description="Day on which Admit will probably delete rows of the log.")
    detail: str = Field(description='Explanation of the warning in one sentence; "" if none.')


class Retention(ObservedModel):
    log: LogName = Field(description="Name of the log.")
    days: int = Field(description="Number of days for which Admit keeps rows of the log.")
    days_chosen: bool = Field(description="Whether the tenant set `days`; otherwise the platform's default applies.")
    floor_days: int = Field(description="Minimum of `days`, which the platform sets.")
    ceiling_days: int = Field(description="Maximum of `days`, which the platform sets.")
    bytes: int | None = Field(description="Maximum size of the log in bytes (budget); null for no budget.")
    used_bytes: int = Field(description="Estimated size of the log in bytes.")
    used_rows: int = Field(description="Estimated number of rows in the log.")
    oldest_day: date | None = Field(description="Oldest day of which the log has rows.")
    kept_from: date = Field(description="Oldest day of the log that Admit keeps.")
    kept_from_later: date = Field(
        description="Oldest day of the log that Admit will keep when pending changes take effect."
    )
    export: ExportFormat | None = Field(
        description="File format of the export before Admit deletes rows; null for no export."
    )
    held: bool = Field(description="Whether a hold prevents the deletion of rows.")
    notices: list[RetentionNotice] = Field(
        description="Warnings about an early deletion, a deletion after a change of retention, or a deletion "
        "that waits for an export."
    )

    def observed_fields(self) -> set[str]:
        return {"used_bytes", "used_rows", "oldest_day", "kept_from", "kept_from_later", "notices"}


class RetentionList(BaseModel):
    items: list[Retention] = Field(description="Retention of each log.")


class RetentionPreview(Retention):
    lost_days: int = Field(description="Number of stored days that Admit would delete a week after the change.")
    no_longer_exported: bool = Field(description="Whether Admit would delete days without an export.")


class RetentionUpdate(Input):
    """Change of retention.

    Omitted fields stay unchanged. "default" selects the platform's value. "none" ends exports. null means no budget for
    `bytes`, and no exports for `export`.
    """

    model_config = body_example({"days": 90, "export": "csv"})

    days: Omittable[_Days | Literal["default"]] = Field(
        None,
        description=(
            'Number of days for which Admit keeps rows of the log; "default" for the platform\'s value. Unchanged '
            "if omitted."
        ),
    )
    bytes: _Bytes | Literal["default"] | None = Field(
        None,
        description='Maximum size of the log in bytes (budget); null or "default" for no budget. Unchanged if omitted.',
    )
    export: ExportFormat | Literal["none"] | None = Field(
        None,
        description=(
            'File format of the export before Admit deletes rows; null or "none" for no export. Unchanged if omitted.'
        ),
    )


class RetentionHold(BaseModel):
    """Days of logs that Admit does not delete, including the first and the last day.

    For `since` and `until`, null means no bound. For `log`, null means all logs.
    """

    id: int = Field(description="Permanent id of the hold.")
    log: LogName | None = Field(description="Name of the log on hold; null for all logs.")
    since: date | None = Field(description="First day of the hold; null for no bound.")
    until: date | None = Field(description="Last day of the hold; null for no bound.")
    reason: str = Field(description="Reason of the hold.")
    set_by: str = Field(description="Actor who created the hold.")
    set_at: datetime = Field(description="Time when the hold was created.")
    cleared_at: datetime | None = Field(description="Time when the hold was cleared; null while the hold is in force.")
    cleared_by: str = Field(description='Actor who cleared the hold; "" while the hold is in force.')


class RetentionHoldInput(Input):
    model_config = body_example({"reason": "Case 2026-17", "log": "auth", "since": "2026-01-05", "until": "2026-01-31"})

    reason: str = Field(max_length=200, examples=["Case 2026-17"], description="Reason of the hold.")
    log: LogName | None = Field(None, description="Name of the log on hold; null for all logs.")
    since: date | None = Field(None, description="First day of the hold; null for no bound.")
    until: date | None = Field(None, description="Last day of the hold; null for no bound.")


class RetentionLimits(BaseModel):
    log: LogName = Field(description="Name of the log.")
    floor_days: int = Field(description="Minimum number of days that a tenant can set.")
    default_days: int = Field(examples=[90], description="Number of days for tenants that set no number.")
    ceiling_days: int = Field(description="Maximum number of days that a tenant can set.")
    ceiling_bytes: int | None = Field(description="Maximum size of a tenant's log in bytes; null for no limit.")


class RetentionLimitsList(BaseModel):
    items: list[RetentionLimits] = Field(description="Limits of the retention of each log.")


class RetentionLimitsInput(Input):
    model_config = body_example({"floor_days": 7, "default_days": 90, "ceiling_days": 730})

    floor_days: _Days = Field(description="Minimum number of days that a tenant can set.")
    default_days: _Days = Field(examples=[90], description="Number of days for tenants that set no number.")
    ceiling_days: _Days = Field(description="Maximum number of days that a tenant can set.")
    ceiling_bytes: _Bytes | None = Field(
        None, description="Maximum size of a tenant's log in bytes; null for no limit."
    )


@router.get(_TENANT_PATH, operation_id="listRetention")
def list_retention(access: Reads) -> RetentionList:
    """List the retention of each log, with usage and warnings."""
    with access.read() as session:
        logs = service.get_log_plans(session, tenant_id=access.tenant_id).values()
        return RetentionList(items=[Retention(**_describe_retention(log)) for log in logs])


@router.get(f"{_TENANT_PATH}/holds", operation_id="listRetentionHolds")
def list_holds(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(require_paging(HOLD_ORDERS))],
    in_force: Annotated[
        bool | None, Query(description="Whether to list only holds in force (true) or only cleared holds (false).")
    ] = None,
) -> Page[RetentionHold]:
    """List holds on logs, oldest first, including cleared holds."""
    with access.read() as session:
        rows = holds.list_holds(session, tenant_id=access.tenant_id, span=paging.span, in_force=in_force)
        return paging.ordered(rows, _build_hold)


@router.post(f"{_TENANT_PATH}/holds", status_code=201, operation_id="createRetentionHold")
def update_hold(access: Changes, body: RetentionHoldInput) -> RetentionHold:
    """Create a hold on logs. Admit keeps these days of the logs until you remove the hold."""
    with access.change() as change:
        row = holds.create_hold(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            reason=body.reason,
            log=body.log,
            first_day=body.since,
            last_day=body.until,
        )
        change.located(row.id)
        return change.answer(_build_hold(row))


@router.get(f"{_TENANT_PATH}/holds/{{hold}}", operation_id="getRetentionHold")
def get_hold(access: Reads, hold: _Hold) -> RetentionHold:
    """Get a hold on logs."""
    with access.read() as session:
        return access.shown(_build_hold(holds.require_hold(session, tenant_id=access.tenant_id, hold_id=hold)))


@router.post(f"{_TENANT_PATH}/holds/{{hold}}/clear", operation_id="deleteRetentionHold")
def clear_hold(access: Changes, hold: _Hold) -> RetentionHold:
    """Clear a hold on logs.

    Admit deletes the expired days of the hold a week later at the earliest.
    """
    with access.change() as change:
        now = holds.require_hold(change.session, tenant_id=access.tenant_id, hold_id=hold, lock=True)
        change.require_match(_build_hold(now))
        row = holds.clear_hold(change.session, actor=access.actor, tenant_id=access.tenant_id, hold_id=hold)
        return change.answer(_build_hold(row))


@router.get(f"{_TENANT_PATH}/{{log}}", operation_id="getRetention")
def get_retention(access: Reads, log: _Log) -> Retention:
    """Get the retention and usage of a log."""
    with access.read() as session:
        return access.shown(
            Retention(**_describe_retention(service.get_log_plans(session, tenant_id=access.tenant_id)[log]))
        )


@router.patch(f"{_TENANT_PATH}/{{log}}", operation_id="updateRetention")
def update_retention(access: Changes, log: _Log, body: RetentionUpdate) -> Retention:
    """Update the retention of a log.

    Shorter retention takes effect a week later.
    """
    with access.change() as change:
        service.lock_log_setting(change.session, tenant_id=access.tenant_id, log=log)
        now = service.get_log_plans(change.session, tenant_id=access.tenant_id)[log]
        change.require_match(Retention(**_describe_retention(now)))
        made = service.update_retention(
            change.session, actor=access.actor, tenant_id=access.tenant_id, change=_build_change(log, body)
        )
        return change.answer(Retention(**_describe_retention(made)))


@router.post(f"{_TENANT_PATH}/{{log}}/preview", operation_id="previewRetention")
def preview_retention(access: Reads, log: _Log, body: RetentionUpdate) -> RetentionPreview:
    """Preview which days of a log a change of the retention would delete."""
    with access.read() as session:
        would_be = service.preview_change(session, tenant_id=access.tenant_id, change=_build_change(log, body))
    return RetentionPreview(
        **_describe_retention(would_be),
        lost_days=sum(would_be.is_lost(day) for day in would_be.sizes),
        no_longer_exported=bool(would_be.terms.export) and would_be.export_format is None,
    )


@router.get(f"{_PLATFORM_PATH}/limits", operation_id="listRetentionLimits")
def list_limits(access: ReadsLimits) -> RetentionLimitsList:
    """List the limits and the default of the retention of each log."""
    with access.read() as session:
        return RetentionLimitsList(
            items=[_build_limits(log, each) for log, each in service.get_limits(session).items()]
        )


@router.get(f"{_PLATFORM_PATH}/limits/{{log}}", operation_id="getRetentionLimits")
def get_retention_limits(access: ReadsLimits, log: _Log) -> RetentionLimits:
    """Get the limits and default of a log's retention."""
    with access.read() as session:
        return access.shown(_build_limits(log, service.get_limits(session)[log]))


@router.put(f"{_PLATFORM_PATH}/limits/{{log}}", operation_id="updateRetentionLimits")
def update_limits(access: ChangesLimits, log: _Log, body: RetentionLimitsInput) -> RetentionLimits:
    """Update the limits of retention for tenants.

    Limits apply to existing settings too. Shorter retention takes effect a week later.
    """
    with access.change() as change:
        _require_match(change, log)
        wanted = LogLimits(**body.model_dump())
        made = service.update_limits(change.session, actor=access.actor, log=log, limits=wanted)
        return change.answer(_build_limits(log, made))


@router.delete(f"{_PLATFORM_PATH}/limits/{{log}}", operation_id="deleteRetentionLimits")
def reset_limits(access: ChangesLimits, log: _Log) -> RetentionLimits:
    """Reset the limits of a log to the built-in values."""
    with access.change() as change:
        _require_match(change, log)
        made = service.update_limits(change.session, actor=access.actor, log=log, limits=None)
        return change.answer(_build_limits(log, made))


def _require_match(change: Change, log: LogName) -> None:
    service.lock_limits(change.session, log=log)
    change.require_match(_build_limits(log, service.get_limits(change.session)[log]))


def _build_change(log: LogName, body: RetentionUpdate) -> service.RetentionChange:
    cleared = {name for name in body.model_fields_set if getattr(body, name) is None}
    most = "default" if "bytes" in cleared else body.bytes
    export = "none" if "export" in cleared else body.export
    return service.RetentionChange(log=log, days=body.days, bytes=most, export_format=export)


def _describe_retention(log: LogPlan) -> dict[str, Any]:
    return {
        "log": log.log,
        "days": log.days,
        "days_chosen": bool(log.chosen and log.chosen.days is not None),
        "floor_days": log.limits.floor_days,
        "ceiling_days": log.limits.ceiling_days,
        "bytes": log.bytes,
        "used_bytes": log.total_bytes,
        "used_rows": sum(log.rows.values()),
        "oldest_day": min(log.sizes, default=None),
        "kept_from": log.keep_from,
        "kept_from_later": log.wanted_from,
        "export": log.export_format,
        "held": bool(log.holds),
        "notices": [_build_notice(notice) for notice in log.notices.values()],
    }


def _build_notice(row: RetentionNoticeRow) -> RetentionNotice:
    return RetentionNotice(log=row.log, kind=row.kind, since=row.since, expected_on=row.expected_on, detail=row.detail)


def _build_hold(row: RetentionHoldRow) -> RetentionHold:
    return RetentionHold.model_validate(
        {
            "id": row.id,
            "log": row.log,
            "since": row.first_day,
            "until": row.last_day,
            "reason": row.reason,
            "set_by": row.set_by,
            "set_at": row.created_at,
            "cleared_at": row.cleared_at,
            "cleared_by": row.cleared_by,
        }
    )


def _build_limits(log: LogName, limits: LogLimits) -> RetentionLimits:
    return RetentionLimits(
        log=log,
        floor_days=limits.floor_days,
        default_days=limits.default_days,
        ceiling_days=limits.ceiling_days,
        ceiling_bytes=limits.ceiling_bytes,
    )
