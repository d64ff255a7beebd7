"""The effective retention of a tenant's logs: settings within the platform's limits, budget, holds and exports.

Days are UTC days. With N days of retention, Admit deletes rows from before the UTC midnight N days ago. So Admit keeps
every row for at least N times 24 hours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from sqlalchemy.orm import Session

from nac.kit.ids import TenantId
from nac.logs.exports import standing_exports
from nac.logs.log_tables import DEFAULT_LIMITS, LOG_NAMES, LogLimits, LogName
from nac.logs.retention import repository
from nac.logs.retention.terms import NOTICE_PERIOD, ChosenTerms, LogTerms
from nac.models import LogSize, RetentionHold, RetentionNotice, RetentionSetting

_DAY = timedelta(days=1)
# Number of full days before today from which the growth rate is calculated.
_GROWTH_DAYS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlan:
    log: LogName
    today: date
    limits: LogLimits
    # Days of retention that the tenant chose. The number of days that applies now is in `terms`.
    days: int
    # Budget that the tenant chose; None for no budget.
    bytes: int | None
    terms: LogTerms
    # Whether `terms` differ from the stored terms.
    has_new_terms: bool
    # The settings that the tenant chose; None if the platform's defaults apply.
    chosen: RetentionSetting | None
    # Estimated bytes and rows by day.
    sizes: Mapping[date, int]
    rows: Mapping[date, int]
    # Retention deletes the days before this day. Of these days, those before `oldest` are too old. The others exceed
    # the budget.
    keep_from: date
    # The value that `keep_from` will have when all chosen settings have taken effect.
    wanted_from: date
    holds: Sequence[RetentionHold]
    # Days whose required export is complete; None if the tenant requires no exports.
    released: frozenset[date] | None
    notices: Mapping[str, RetentionNotice]

    @property
    def oldest(self) -> date:
        return self.today - self.terms.days * _DAY

    @property
    def total_bytes(self) -> int:
        return sum(self.sizes.values())

    @property
    def export_format(self) -> str | None:
        return self.chosen.export_format if self.chosen else None

    def gives_up(self, day: date) -> bool:
        """Return whether retention must delete the day's rows now."""
        return (
            day < self.keep_from
            and not any(hold_covers_day(hold, self.log, day) for hold in self.holds)
            and (self.released is None or day in self.released)
        )

    def is_lost(self, day: date) -> bool:
        """Return whether the day is kept now, but will be deleted when all chosen settings take effect."""
        in_force = any(hold_covers_day(hold, self.log, day) for hold in self.holds if hold.cleared_at is None)
        kept = day >= self.keep_from or any(hold_covers_day(hold, self.log, day) for hold in self.holds)
        return kept and not in_force and day < self.wanted_from

    def is_early(self, day: date) -> bool:
        """Return whether a deletion of the day is early: not because of the day's age, but because of the budget."""
        return day >= self.oldest


@dataclass(frozen=True, slots=True)
class TenantPlan:
    tenant_id: TenantId
    time_zone: ZoneInfo
    logs: Mapping[LogName, LogPlan]


def load_plan(
    session: Session,
    *,
    tenant_id: TenantId,
    now: datetime,
    limits: Mapping[LogName, LogLimits],
    danger: bool = False,
    instead: Mapping[LogName, RetentionSetting] | None = None,
) -> TenantPlan:
    """Return the tenant's retention plan at `now` (aware).

    If `danger` is true, budgets apply without a notice period. `instead` maps logs to settings that override the stored
    settings. Requires the tenant's scope.
    """
    today = now.astimezone(UTC).date()
    stored = {setting.log: setting for setting in repository.list_settings(session, tenant_id)}
    keeping = repository.list_holds_that_keep(session, tenant_id, now)
    notices = repository.list_notices(session, tenant_id)
    sizes = repository.list_sizes(session, tenant_id)
    known = repository.get_terms(session, tenant_id)
    plans = {}
    for log in LOG_NAMES:
        chosen = (instead or {}).get(log, stored.get(log))
        wanted = _wanted_terms(limits[log], chosen)
        # A log without stored terms had no reduction yet, so the stored settings are in force.
        terms = known.get(log, LogTerms.begin(_wanted_terms(limits[log], stored.get(log)))).advance(wanted, now)
        plans[log] = _build_plan(
            log,
            today,
            now,
            limits[log],
            chosen,
            wanted,
            terms,
            is_new=known.get(log) != terms,
            sizes=[size for size in sizes if size.log == log],
            holds=[hold for hold in keeping if hold.log in (None, log)],
            released=standing_exports.list_exported_days(session, tenant_id, log) if terms.export else None,
            notices={notice.kind: notice for notice in notices if notice.log == log},
            danger=danger,
        )
    return TenantPlan(tenant_id, ZoneInfo(repository.get_time_zone(session, tenant_id)), plans)


def load_limits(session: Session) -> dict[LogName, LogLimits]:
    """Return the platform's limits by log. Works in any scope."""
    own = {
        row.log: LogLimits(row.floor_days, row.default_days, row.ceiling_days, row.ceiling_bytes)
        for row in repository.list_limits(session)
    }
    return {log: own.get(log, DEFAULT_LIMITS[log]) for log in LOG_NAMES}


def effective_days(limits: LogLimits, setting: RetentionSetting | None) -> int:
    days = setting.days if setting and setting.days is not None else limits.default_days
    return max(limits.floor_days, min(days, limits.ceiling_days))


def effective_bytes(limits: LogLimits, setting: RetentionSetting | None) -> int | None:
    given = [each for each in (setting.bytes if setting else None, limits.ceiling_bytes) if each is not None]
    return min(given, default=None)


def _wanted_terms(limits: LogLimits, setting: RetentionSetting | None) -> ChosenTerms:
    return ChosenTerms(
        days=effective_days(limits, setting),
        floor=limits.floor_days,
        bytes=effective_bytes(limits, setting),
        export=setting is not None and setting.export_format is not None,
    )


def hold_covers_day(hold: RetentionHold, log: str, day: date) -> bool:
    return (
        hold.log in (None, log)
        and (hold.first_day is None or hold.first_day <= day)
        and (hold.last_day is None or day <= hold.last_day)
    )


def _build_plan(
    log: LogName,
    today: date,
    now: datetime,
    limits: LogLimits,
    setting: RetentionSetting | None,
    wanted: ChosenTerms,
    terms: LogTerms,
    *,
    is_new: bool,
    sizes: Sequence[LogSize],
    holds: Sequence[RetentionHold],
    released: frozenset[date] | None,
    notices: Mapping[str, RetentionNotice],
    danger: bool,
) -> LogPlan:
    by_day = {size.day: size.bytes for size in sizes}

    def first_kept(days: int, floor: int, most: int | None) -> date:
        keep_from = today - days * _DAY
        if most is None:
            return keep_from
        fitting = first_kept_day(by_day, since=keep_from, budget=most)
        return max(keep_from, min(fitting, today - floor * _DAY))

    warned = notices.get("budget")
    is_warned = warned is not None and now - warned.since >= NOTICE_PERIOD
    in_force = terms.bytes if is_warned else None
    return LogPlan(
        log=log,
        today=today,
        limits=limits,
        days=wanted.days,
        bytes=wanted.bytes,
        terms=terms,
        has_new_terms=is_new,
        chosen=setting,
        sizes=by_day,
        rows={size.day: size.rows for size in sizes},
        keep_from=first_kept(terms.days, terms.floor, wanted.bytes if danger else in_force),
        wanted_from=first_kept(wanted.days, wanted.floor, wanted.bytes),
        holds=holds,
        released=released,
        notices=notices,
    )


def midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def first_kept_day(sizes: Mapping[date, int], *, since: date, budget: int) -> date:
    """Return the first day to keep, so that this day and all newer days fit into `budget` (bytes).

    Returns `since` if all days fit. If even the newest day does not fit, returns the day after the newest day.
    """
    room = budget
    first = since
    for day in sorted((day for day in sizes if day >= since), reverse=True):
        room -= sizes[day]
        if room < 0:
            return day + _DAY
    return first


def sum_bytes(sizes: Mapping[date, int], *, since: date) -> int:
    return sum(size for day, size in sizes.items() if day >= since)


def predict_exceeded_day(sizes: Mapping[date, int], *, today: date, days: int, budget: int) -> date | None:
    """Return the day when the log will exceed `budget` (bytes); None if the log will not exceed the budget.

    Assumes that each day adds the average of the last week, and that retention deletes the oldest day.
    """
    recent = [sizes.get(today - n * _DAY, 0) for n in range(1, _GROWTH_DAYS + 1)]
    known = [day for day in sizes if day < today]
    growth = sum(recent) / min(_GROWTH_DAYS, max(1, (today - min(known)).days)) if known else 0.0
    kept = float(sum_bytes(sizes, since=today - days * _DAY))
    for ahead in range(days + 1):
        if kept > budget:
            return today + ahead * _DAY
        kept += growth - sizes.get(today + ahead * _DAY - days * _DAY, 0)
    return None
