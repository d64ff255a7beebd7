"""`./admit secret-rotation`."""

from collections.abc import Callable
from typing import Any

import click

from cli.command_context import CommandContext
from cli.operation_commands import render_advice
from cli.output import Row, iterate_pages, json_option, show_json, show_list, show_one, tenant_option
from nac.kit.clock import utc_now
from nac.models.secret_rotation import ROTATION_END_ACTIONS, RotationEndAction
from nac.onboarding.snippets import service as snippets
from nac.tenancy.secret_rotations import service as rotations
from nac.tenancy.secret_rotations.instructions import advise_nas, list_steps
from nac.tenancy.secret_rotations.service import RotationStatus

_nas_option = click.option("--nas", default="", help="NAS with its own secret (default the tenant's secret).")
_leave_option = click.option("--leave-behind", is_flag=True, help="Continue even if NASes still use the ending secret.")


@click.group()
def command() -> None:
    """Rotate RADIUS secrets: begin, check, then finish or cancel (docs/how-to/secret-rotation.md)."""


def _row(status: RotationStatus) -> Row:
    row = status.rotation
    stage = rotations.get_stage(row, utc_now())
    return {
        "of": status.nas.name if status.nas else "tenant",
        "state": stage,
        "ends_at": row.ends_at,
        "at_end": row.at_end,
        "nases": ", ".join(f"{count} {state}" for state, count in sorted(status.counts.items())),
        "plan": [render_advice(step) for step in list_steps(status, stage)],
    }


def _show(row: Row, *, as_json: bool) -> None:
    if as_json:
        show_json(row)
        return
    plan = row["plan"]
    assert isinstance(plan, list)
    show_one({key: value for key, value in row.items() if key != "plan"}, as_json=False)
    for number, step in enumerate(plan, start=1):
        click.echo(f"{number}. {step}")


def _step(
    slug: str,
    step: Callable[..., RotationStatus],
    *,
    as_json: bool,
    is_sealing: bool = True,
    **arguments: Any,  # noqa: ANN401 -- the step's own arguments
) -> None:
    domain = CommandContext()
    if is_sealing:
        arguments["sealer"] = domain.sealer
    with domain.platform_change(slug) as (session, tenant_id):
        row = _row(step(session, actor=domain.actor, tenant_id=tenant_id, **arguments))
    _show(row, as_json=as_json)


@command.command()
@tenant_option
@_nas_option
@click.option("--secret", metavar="TEXT", help="New secret of 16 to 128 characters (default random).")
@click.option("--hours", type=int, default=168, show_default=True, help="Duration of the rotation in hours.")
@click.option("--at-end", type=click.Choice(ROTATION_END_ACTIONS), default="finish", show_default=True)
@json_option
def begin(tenant: str, nas: str, secret: str | None, hours: int, at_end: RotationEndAction, as_json: bool) -> None:
    """Begin a rotation. Both secrets work, and each NAS can use either."""
    _step(tenant, rotations.start_rotation, as_json=as_json, nas=nas, secret=secret, hours=hours, at_end=at_end)


@command.command()
@tenant_option
@_nas_option
@json_option
def show(tenant: str, nas: str, as_json: bool) -> None:
    """Show the last rotation and its next step."""
    with CommandContext().tenant(tenant) as (session, tenant_id):
        row = _row(rotations.require_status(session, tenant_id=tenant_id, nas=nas))
    _show(row, as_json=as_json)


@command.command()
@tenant_option
@_nas_option
@click.option("--state", type=click.Choice(("unseen", "old", "new", "back")), default=None)
@json_option
def nases(tenant: str, nas: str, state: str | None, as_json: bool) -> None:
    """List NASes with the secret that each uses."""
    with CommandContext().tenant(tenant) as (session, tenant_id):
        pages = iterate_pages(
            lambda after: rotations.list_page(session, tenant_id=tenant_id, nas=nas, state=state or "", after=after),
            lambda each: each.key,
            first="",
        )
        rows: list[Row] = [
            {
                "nas": each.name or each.key,
                "state": each.state,
                "new_since": each.new_since,
                "source": each.source or each.address,
                "way": advise_nas(each).way,
            }
            for page in pages
            for each in page
        ]
    show_list(rows, as_json=as_json)


@command.command()
@tenant_option
@_nas_option
@json_option
def reveal(tenant: str, nas: str, as_json: bool) -> None:
    """Show the new secret. The audit log records this."""
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        secret = snippets.reveal_secret(
            session, actor=domain.actor, tenant_id=tenant_id, unseal=domain.sealer.open, nas=nas, following=True
        )
    show_one({"secret": secret}, as_json=as_json)


@command.command()
@tenant_option
@_nas_option
@_leave_option
@json_option
def finish(tenant: str, nas: str, leave_behind: bool, as_json: bool) -> None:
    """Finish the rotation. Only the new secret works from now on."""
    _step(tenant, rotations.finish_rotation, as_json=as_json, nas=nas, leave_behind=leave_behind)


@command.command()
@tenant_option
@_nas_option
@_leave_option
@json_option
def cancel(tenant: str, nas: str, leave_behind: bool, as_json: bool) -> None:
    """Cancel the rotation. Only the old secret works again."""
    _step(tenant, rotations.cancel_rotation, as_json=as_json, is_sealing=False, nas=nas, leave_behind=leave_behind)
