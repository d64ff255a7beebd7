"""`./admit tenant-move`."""

from collections.abc import Callable
from typing import Any

import click

from cli.command_context import CommandContext
from cli.output import Row, json_option, show_one
from nac.kit.db import enter_tenant
from nac.tenancy.tenants import moves
from nac.tenancy.tenants import service as tenants
from nac.tenancy.tenants.moves import CellAddress, MoveStatus


@click.group()
def command() -> None:
    """Move a tenant to another cell: prepare, switch, then finish or cancel (docs/how-to/tenants.md)."""


# Next step for the operator, by state and readiness.
_NEXT = {
    ("prepared", True): "./admit tenant-move switch {slug}, once its NASes know the new address",
    ("prepared", False): "Wait up to half a minute for radiusd of the new cell. Then: ./admit "
    "tenant-move switch {slug}",
    (
        "switched",
        True,
    ): "./admit tenant-move finish {slug}, once its NASes use the new cell; to go back: ./admit tenant-move cancel "
    "{slug}",
    ("finished", False): "None: the move is complete.",
    ("cancelled", False): "None: the move is cancelled.",
}


def _row(status: MoveStatus, slug: str) -> Row:
    def describe(place: CellAddress) -> str:
        return f"{place.address or place.cell}, ports {place.auth_port} and {place.acct_port}"

    state = status.move.state
    return {
        "state": state,
        # Whether the next step can run; empty after the last one.
        "ready": status.is_ready if state in ("prepared", "switched") else None,
        "before": describe(status.before),
        "after": describe(status.after),
        "at_nases": status.told,
        "next": _NEXT[state, status.is_ready].format(slug=slug),
    }


def _step(
    slug: str,
    step: Callable[..., MoveStatus],
    *,
    as_json: bool,
    is_sealing: bool = False,
    **arguments: Any,  # noqa: ANN401 -- the step's own arguments
) -> None:
    domain = CommandContext()
    if is_sealing:
        arguments["sealer"] = domain.sealer
    with domain.platform_change(slug) as (session, tenant_id):
        row = _row(step(session, actor=domain.actor, tenant_id=tenant_id, **arguments), slug)
    show_one(row, as_json=as_json)


@command.command()
@click.argument("slug")
@click.option("--to", "cell", required=True, metavar="CELL", help="Name of the new cell.")
@json_option
def prepare(slug: str, cell: str, as_json: bool) -> None:
    """Prepare a slot in another cell with the secret of the tenant SLUG. Its NASes are not affected."""
    _step(slug, moves.prepare_move, as_json=as_json, is_sealing=True, cell=cell)


@command.command()
@click.argument("slug")
@click.option(
    "--although-silent", is_flag=True, help="Switch even if the old cell does not report; stop its radiusd first."
)
@json_option
def switch(slug: str, although_silent: bool, as_json: bool) -> None:
    """Switch the tenant SLUG to the new cell. The old cell stops responding to it."""
    _step(slug, moves.switch_move, as_json=as_json, is_sealing=True, although_silent=although_silent)


@command.command()
@click.argument("slug")
@json_option
def finish(slug: str, as_json: bool) -> None:
    """Finish the move and release the slot in the old cell."""
    _step(slug, moves.finish_move, as_json=as_json)


@command.command()
@click.argument("slug")
@json_option
def cancel(slug: str, as_json: bool) -> None:
    """Cancel the move. A switched tenant returns to the old cell immediately."""
    _step(slug, moves.cancel_move, as_json=as_json)


@command.command()
@click.argument("slug")
@json_option
def show(slug: str, as_json: bool) -> None:
    """Show the last move of the tenant SLUG."""
    with CommandContext().platform() as session:
        tenant_id = tenants.require_by_slug(session, slug=slug).id
        enter_tenant(session, tenant_id)
        row = _row(moves.require_move(session, tenant_id=tenant_id), slug)
    show_one(row, as_json=as_json)
