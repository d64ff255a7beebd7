"""Rows that the retention commands print."""

from cli.output import Row
from nac.kit.text_format import format_size
from nac.logs.log_tables import LogLimits
from nac.logs.retention.plan import LogPlan
from nac.models import RetentionNotice


def retention_row(log: LogPlan) -> Row:
    chosen = log.chosen
    return {
        "log": log.log,
        "days": log.days,
        # Whether the tenant set the days; if not, the platform's default applies.
        "days_chosen": bool(chosen and chosen.days is not None),
        "floor_days": log.limits.floor_days,
        "ceiling_days": log.limits.ceiling_days,
        # Budget in bytes; None for no budget.
        "bytes": log.bytes,
        # Estimated size in bytes, and estimated number of rows.
        "used_bytes": log.total_bytes,
        "used_is_estimate": True,
        "used_rows": sum(log.rows.values()),
        "oldest_day": str(min(log.sizes)) if log.sizes else None,
        # Start of the retained period now, and when all announced settings are in force.
        "kept_from": str(log.keep_from),
        "kept_from_later": str(log.wanted_from),
        "export": log.export_format or "none",
        "held": bool(log.holds),
        "notices": [
            {
                "kind": notice.kind,
                "since": notice.since.isoformat(),
                "expected_on": notice.expected_on and str(notice.expected_on),
                "detail": notice.detail,
            }
            for notice in log.notices.values()
        ],
    }


def for_people(row: Row) -> Row:
    """Return the row with units for sizes. JSON has bytes."""
    names = {"bytes": "budget", "used_bytes": "used", "ceiling_bytes": "ceiling"}
    return {
        names.get(name, name): format_size(value) if name in names and isinstance(value, int) else value
        for name, value in row.items()
    }


def notice_row(slug: str, notice: RetentionNotice) -> Row:
    return {
        "tenant": slug,
        "log": notice.log,
        "kind": notice.kind,
        "since": notice.since.isoformat(),
        "expected_on": notice.expected_on and str(notice.expected_on),
        "detail": notice.detail,
    }


def limits_row(log: str, limits: LogLimits) -> Row:
    return {
        "log": log,
        "floor_days": limits.floor_days,
        "default_days": limits.default_days,
        "ceiling_days": limits.ceiling_days,
        "ceiling_bytes": limits.ceiling_bytes,
    }
