"""Commands of `./admit retention` that warn before data is lost."""

import re
from typing import Any, cast

import click

from cli.errors import confirm
from cli.output import Row, json_option, show_list, show_one, tenant_option
from cli.remote.commands import call_operation, list_items
from cli.remote.local_api import connect
from nac.kit.text_format import SIZE_UNITS, format_size
from nac.logs.log_tables import DEFAULT_LIMITS, LOG_NAMES, LogName
from nac.logs.retention.terms import NOTICE_PERIOD, UNBOUNDED

_UNITS = {"": 1, **SIZE_UNITS}
_DEFAULT = "default"
_LIMITS = ("floor_days", "default_days", "ceiling_days", "ceiling_bytes")
log_option = click.option("--log", type=click.Choice(LOG_NAMES), required=True, help="Name of the log.")


class Days(click.ParamType[int | str]):
    name = "DAYS|default"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value == _DEFAULT:
            return _DEFAULT
        if not re.fullmatch(r"\d{1,6}", str(value)):
            self.fail(f"{value!r} is not a number of days or 'default'.", param, ctx)
        return int(str(value))


class Size(click.ParamType[int | str]):
    """Size such as 10GB, 500MB or a number of bytes; 1 KB is 1,024 bytes."""

    name = "SIZE|none"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value in ("none", _DEFAULT):
            return _DEFAULT
        size = re.fullmatch(r"(\d{1,15})(KB|MB|GB|TB|)", str(value).upper())
        if size is None or int(size[1]) * _UNITS[size[2]] >= 1 << 62:
            self.fail(f"{value!r} is not a size such as 500MB or 10GB, or 'none'.", param, ctx)
        return int(size[1]) * _UNITS[size[2]]


@click.group()
def command() -> None:
    """Manage the retention of logs, and holds that prevent the deletion of logs."""


@command.command("set")
@tenant_option
@log_option
@click.option("--days", type=Days(), help="Retention of the log in days; 'default' for the platform's default.")
@click.option("--bytes", "size", type=Size(), help="Maximum size of the log, such as 10GB; 'none' for no maximum.")
@click.option(
    "--export",
    "export_format",
    metavar="csv|jsonl|parquet|none",
    help="Format in which Admit exports each day before deletion; 'none' for no export.",
)
@click.option("--yes", is_flag=True, help="Skip the confirmation of deletions.")
@json_option
def set_command(
    tenant: str,
    log: str,
    days: int | str | None,
    size: int | str | None,
    export_format: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Set the retention of a log. Omitted settings do not change. Shorter retention takes effect after a week."""
    api = connect()
    change = {"days": days, "bytes": size, "export": export_format}
    if not yes and (lost := _describe_loss(call_operation(api, "preview-retention", tenant=tenant, log=log, **change))):
        confirm(f"{lost} This change takes effect in {NOTICE_PERIOD.days} days. Continue?")
    row = call_operation(api, "update-retention", tenant=tenant, log=log, **change)
    if as_json:
        show_one(row, as_json=True)
        return
    show_one(_with_units({name: row[name] for name in row if name != "notices"}), as_json=False)
    for notice in row["notices"]:
        click.echo(f"{log}: {notice['detail']}")


def _describe_loss(preview: dict[str, Any]) -> str:
    """Return a warning about stored days that Admit would delete after the change; "" for no warning."""
    if preview["lost_days"]:
        return f"{preview['lost_days']} days of the {preview['log']} log will be deleted."
    if preview["no_longer_exported"]:
        return f"Days of the {preview['log']} log will be deleted without an export."
    return ""


def _with_units(row: Row) -> Row:
    """Return the row with sizes in units such as GB. JSON output has sizes in bytes."""
    names = {"bytes": "budget", "used_bytes": "used", "ceiling_bytes": "ceiling"}
    return {
        names.get(name, name): format_size(value) if name in names and isinstance(value, int) else value
        for name, value in row.items()
    }


@command.command()
@json_option
def notices(as_json: bool) -> None:
    """List warnings of all tenants about early deletion and about days that wait for an export."""
    api = connect()
    rows = []
    for tenant in list_items(api, "list-discovered-tenants"):
        if tenant["status"] != "deleting":
            for log in list_items(api, "list-retention", tenant=tenant["slug"]):
                rows += [{"tenant": tenant["slug"], **notice} for notice in log["notices"]]
    show_list(rows, as_json=as_json)


@command.group()
def limits() -> None:
    """Manage the platform's limits for the retention that tenants can set."""


@limits.command("set")
@log_option
@click.option("--floor-days", type=int, help="Minimum retention in days that a tenant can set.")
@click.option("--default-days", type=int, help="Retention in days for tenants that set no retention.")
@click.option("--ceiling-days", type=int, help="Maximum retention in days that a tenant can set.")
@click.option("--ceiling-bytes", type=Size(), help="Maximum size of each tenant's log; 'none' for no maximum.")
@click.option("--reset", is_flag=True, help="Reset the limits to the built-in defaults.")
@click.option("--yes", is_flag=True, help="Skip the confirmation of shorter retention.")
@json_option
def limits_set(
    log: str,
    floor_days: int | None,
    default_days: int | None,
    ceiling_days: int | None,
    ceiling_bytes: int | str | None,
    reset: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Set the limits for a log. Omitted limits do not change. The limits also apply to existing settings.

    Shorter retention takes effect after a week.
    """
    chosen = dict(zip(_LIMITS, (floor_days, default_days, ceiling_days, ceiling_bytes), strict=True))
    if reset and (others := [f"--{name.replace('_', '-')}" for name, value in chosen.items() if value is not None]):
        raise click.UsageError(f"--reset cannot be combined with {', '.join(others)}. Remove --reset, or the limits.")
    api = connect()
    before = call_operation(api, "get-retention-limits", log=log)
    after: dict[str, Any] = {name: before[name] if chosen[name] is None else chosen[name] for name in _LIMITS}
    if after["ceiling_bytes"] == _DEFAULT:
        after["ceiling_bytes"] = None
    if reset:
        after = {name: getattr(DEFAULT_LIMITS[cast("LogName", log)], name) for name in _LIMITS}
    is_ordered = after["floor_days"] <= after["default_days"] <= after["ceiling_days"]
    if not yes and is_ordered and _is_less(before, after):
        confirm(
            f"Data of the {log} log beyond these limits will be deleted in {NOTICE_PERIOD.days} days, for all tenants."
            " Continue?"
        )
    if reset:
        row = call_operation(api, "delete-retention-limits", log=log)
    else:
        row = call_operation(api, "update-retention-limits", log=log, **after)
    show_one(row if as_json else _with_units(row), as_json=as_json)


def _is_less(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether a limit becomes lower, so that Admit could delete a tenant's data sooner."""
    return any((after[name] or UNBOUNDED) < (before[name] or UNBOUNDED) for name in _LIMITS)
