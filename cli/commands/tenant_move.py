"""`./admit tenant-move`."""

from collections.abc import Callable
from typing import Any

import click

from cli.domain import Domain
from cli.output import Row, json_option, show_one
from nac.db import enter_tenant
from nac.tenants import moves
from nac.tenants import service as tenants
from nac.tenants.moves import CellAddress, MoveStatus


@click.group()
def command() -> None:
    """A tenant goes to another cell: prepare, switch, then finish or cancel (docs/how-to/tenants.md)."""


# What whoever runs the platform does next, ready or not.
_NEXT = {
    ("prepared", True): "./admit tenant-move switch {slug}, once its NASes know the new address",
    ("prepared", False): "Wait: radiusd of the new cell takes the tenant up within half a minute. Then: ./admit "
    "tenant-move switch {slug}",
    ("switched", True): "./admit tenant-move finish {slug}, once its NASes ask there; or ./admit tenant-move cancel "
    "{slug}, which goes back",
    ("finished", False): "Nothing: the move is over.",
    ("cancelled", False): "Nothing: the move is over.",
}


def _row(status: MoveStatus, slug: str) -> Row:
    def told(place: CellAddress) -> str:
        return f"{place.address or place.cell}, ports {place.auth_port} and {place.acct_port}"

    state = status.move.state
    return {
        "state": state,
        # Of the next step: none comes after the last one.
        "ready": status.is_ready if state in ("prepared", "switched") else None,
        "before": told(status.before),
        "after": told(status.after),
        "at_nases": status.told,
        "next": _NEXT[state, status.is_ready].format(slug=slug),
    }


def _step(slug: str, step: Callable[..., MoveStatus], *, as_json: bool, is_sealing: bool = False, **given: Any) -> None:  # noqa: ANN401 -- the step's own arguments
    domain = Domain()
    if is_sealing:
        given["sealer"] = domain.sealer
    with domain.platform_change(slug) as (session, tenant_id):
        row = _row(step(session, actor=domain.actor, tenant_id=tenant_id, **given), slug)
    show_one(row, as_json=as_json)


@command.command()
@click.argument("slug")
@click.option("--to", "cell", required=True, metavar="CELL", help="Name of the cell.")
@json_option
def prepare(slug: str, cell: str, as_json: bool) -> None:
    """Configure a slot of another cell with the secret of the tenant SLUG; for its NASes nothing changes."""
    _step(slug, moves.prepare_move, as_json=as_json, is_sealing=True, cell=cell)


@command.command()
@click.argument("slug")
@click.option("--although-silent", is_flag=True, help="Although the cell before does not report; stop its radiusd.")
@json_option
def switch(slug: str, although_silent: bool, as_json: bool) -> None:
    """From now on the new cell decides for the tenant SLUG, and the one before answers no more."""
    _step(slug, moves.switch_move, as_json=as_json, is_sealing=True, although_silent=although_silent)


@command.command()
@click.argument("slug")
@json_option
def finish(slug: str, as_json: bool) -> None:
    """Give the slot of before back to its cell."""
    _step(slug, moves.finish_move, as_json=as_json)


@command.command()
@click.argument("slug")
@json_option
def cancel(slug: str, as_json: bool) -> None:
    """As it was before: a tenant that was switched goes back at once."""
    _step(slug, moves.cancel_move, as_json=as_json)


@command.command()
@click.argument("slug")
@json_option
def show(slug: str, as_json: bool) -> None:
    """Show the last move of the tenant SLUG."""
    with Domain().platform() as session:
        tenant_id = tenants.require_by_slug(session, slug=slug).id
        enter_tenant(session, tenant_id)
        row = _row(moves.require_move(session, tenant_id=tenant_id), slug)
    show_one(row, as_json=as_json)
