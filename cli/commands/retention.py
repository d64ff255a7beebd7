"""`./admit retention`."""

import re

import click

from cli.command_context import CommandContext
from cli.commands._retention_rows import (
    for_people,
    limits_row,
    notice_row,
    retention_row,
)
from cli.errors import confirm
from cli.output import json_option, show_list, show_one, tenant_option
from nac.kit.text_format import SIZE_UNITS
from nac.logs.log_tables import DEFAULT_LIMITS, LOG_NAMES, LogLimits
from nac.logs.retention import service
from nac.logs.retention.plan import LogPlan
from nac.logs.retention.service import DEFAULT, DefaultChoice
from nac.logs.retention.terms import NOTICE_PERIOD
from nac.models.export import EXPORT_FORMATS

_UNITS = {"": 1, **SIZE_UNITS}
log_option = click.option("--log", type=click.Choice(LOG_NAMES), required=True, help="The log.")


class Days(click.ParamType[int | DefaultChoice]):
    name = "DAYS|default"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | DefaultChoice:
        if value == DEFAULT:
            return DEFAULT
        if not re.fullmatch(r"\d{1,6}", str(value)):
            self.fail(f"{value!r} is not a number of days or 'default'.", param, ctx)
        return int(str(value))


class Size(click.ParamType[int | DefaultChoice]):
    """Size such as 10GB, 500MB or a number of bytes; 1 KB is 1,024 bytes."""

    name = "SIZE|none"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | DefaultChoice:
        if value in ("none", DEFAULT):
            return DEFAULT
        size = re.fullmatch(r"(\d{1,15})(KB|MB|GB|TB|)", str(value).upper())
        if size is None or int(size[1]) * _UNITS[size[2]] >= 1 << 62:
            self.fail(f"{value!r} is not a size such as 500MB or 10GB, or 'none'.", param, ctx)
        return int(size[1]) * _UNITS[size[2]]


@click.group()
def command() -> None:
    """Manage the retention of logs, and holds."""


def _tell_notices(log: LogPlan) -> None:
    for notice in log.notices.values():
        click.echo(f"{log.log}: {notice.detail}")


@command.command("set")
@tenant_option
@log_option
@click.option("--days", type=Days(), help="Retention in days; 'default' for the platform's default.")
@click.option("--bytes", "size", type=Size(), help="Maximum size, such as 10GB; 'none' for no maximum.")
@click.option(
    "--export",
    "export_format",
    type=click.Choice([*EXPORT_FORMATS, "none"]),
    help="Format in which each day is exported before deletion; 'none' for no export.",
)
@click.option("--yes", is_flag=True, help="Skip the confirmation of deletions.")
@json_option
def set_command(
    tenant: str,
    log: str,
    days: int | DefaultChoice | None,
    size: int | DefaultChoice | None,
    export_format: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Set the retention of a log. Omitted settings do not change. Shorter retention takes effect after a week."""
    domain = CommandContext()
    change = service.RetentionChange(log=log, days=days, bytes=size, export_format=export_format)
    if not yes:
        with domain.tenant(tenant) as (session, tenant_id):
            lost = _lost(service.preview_change(session, tenant_id=tenant_id, change=change))
        if lost:
            confirm(f"{lost} This takes effect in {NOTICE_PERIOD.days} days. Continue?")
    with domain.tenant(tenant) as (session, tenant_id):
        after = service.update_retention(session, actor=domain.actor, tenant_id=tenant_id, change=change)
    row = retention_row(after)
    summary = for_people({name: row[name] for name in row if name != "notices"})
    show_one(row if as_json else summary, as_json=as_json)
    if not as_json:
        _tell_notices(after)


def _lost(would_be: LogPlan) -> str:
    """Warning about stored data that the change would delete."""
    lost = sum(would_be.is_lost(day) for day in would_be.sizes)
    if lost:
        return f"{lost} days of the {would_be.log} log will be deleted."
    if would_be.terms.export and would_be.export_format is None:
        return f"Days of the {would_be.log} log will be deleted without an export."
    return ""


@command.command()
@json_option
def notices(as_json: bool) -> None:
    """List early deletions and days that wait for an export, of all tenants."""
    domain = CommandContext()
    rows = []
    for slug in domain.slugs():
        with domain.tenant(slug) as (session, tenant_id):
            rows += [notice_row(slug, notice) for notice in service.list_notices(session, tenant_id=tenant_id)]
    show_list(rows, as_json=as_json)


@command.group()
def limits() -> None:
    """Manage the platform's bounds for the retention of tenants."""


@limits.command("set")
@log_option
@click.option("--floor-days", type=int, help="Minimum retention in days.")
@click.option("--default-days", type=int, help="Default retention in days.")
@click.option("--ceiling-days", type=int, help="Maximum retention in days.")
@click.option("--ceiling-bytes", type=Size(), help="Maximum size of each tenant's log; 'none' for no maximum.")
@click.option("--reset", is_flag=True, help="Return to the product's defaults.")
@click.option("--yes", is_flag=True, help="Skip the confirmation of shorter retention.")
@json_option
def limits_set(
    log: str,
    floor_days: int | None,
    default_days: int | None,
    ceiling_days: int | None,
    ceiling_bytes: int | DefaultChoice | None,
    reset: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Set the bounds for a log. Omitted ones do not change.

    The bounds also apply to existing settings. Shorter retention takes effect after a week.
    """
    domain = CommandContext()
    with domain.platform() as session:
        now = service.get_limits(session)[service.require_log(log)]
    most = now.ceiling_bytes if ceiling_bytes is None else ceiling_bytes
    new_limits = LogLimits(
        now.floor_days if floor_days is None else floor_days,
        now.default_days if default_days is None else default_days,
        now.ceiling_days if ceiling_days is None else ceiling_days,
        None if most == DEFAULT else most,
    )
    service.require_ordered_limits(new_limits)
    if not yes and service.allows_less(now, DEFAULT_LIMITS[service.require_log(log)] if reset else new_limits):
        confirm(
            f"Data of the {log} log beyond these bounds will be deleted in {NOTICE_PERIOD.days} days, for all tenants."
            " Continue?"
        )
    with domain.platform() as session:
        made = service.update_limits(session, actor=domain.actor, log=log, limits=None if reset else new_limits)
    row = limits_row(log, made)
    show_one(row if as_json else for_people(row), as_json=as_json)
