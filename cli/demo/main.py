"""Entry points of `./admit demo` and `./admit up`."""

import shutil

import click

from cli.command_context import CommandContext
from cli.demo.board import Board, read_last_board, run_board
from cli.demo.board_text import RESET_HINT, render_board, render_differences
from cli.demo.seed import MSP, TENANTS
from cli.errors import describe_error
from nac.kit.errors import AdmitError
from nac.kit.settings import Settings
from nac.onboarding import tenant_purge
from nac.tenancy import msps
from nac.tenancy.tenants import service as tenants


def main(*, json: bool, with_long: bool) -> int:
    """Create missing objects of the demo, run the checks and show the board. Returns the exit status.

    Call this function in a click context.
    """
    return show_board(run_board(CommandContext(), with_long=with_long), as_json=json)


def show_after_start() -> None:
    """Create missing objects of the demo and run the checks after a start of Admit.

    Prints unexpected results, and how to reset the demo.
    """
    try:
        board = run_board(CommandContext(), with_long=False)
    except AdmitError as exc:
        click.echo(f"Admit is running, but the demo failed: {describe_error(exc)}\n{RESET_HINT}")
        return
    show_board(board, as_json=False)
    if not board.ok:
        click.echo(render_differences(board))


def show_board(board: Board, *, as_json: bool) -> int:
    """Show the board; returns 0 if all rows are as expected, otherwise 1."""
    click.echo(board.to_json() if as_json else render_board(board), nl=not as_json)
    return 0 if board.ok else 1


def show_last_board(settings: Settings) -> bool:
    """Show the last board, if a board exists and all its results were as expected.

    Returns whether a board was shown.
    """
    board = read_last_board(settings)
    if board is None or not board.ok:
        return False
    click.echo(render_board(board))
    return True


def remove_tenants(domain: CommandContext) -> None:
    """Delete the tenants of the demo's MSP, but not tenants of other MSPs with the names of demo tenants."""
    for slug in TENANTS:
        if _is_ours(domain, slug):
            with domain.tenant(slug) as (session, tenant_id):
                tenants.delete_tenant(session, actor=domain.actor, tenant_id=tenant_id)
            with domain.platform() as session:
                tenant_purge.purge_tenant(session, actor=domain.actor, tenant_id=tenant_id)
            # The folder has passwords, keys and certificates of the deleted tenants.
            shutil.rmtree(domain.settings.var_dir / "demo" / slug, ignore_errors=True)


def _is_ours(domain: CommandContext, slug: str) -> bool:
    with domain.platform() as session:
        try:
            return tenants.require_by_slug(session, slug=slug).msp_id == msps.require_by_slug(session, slug=MSP).id
        except (tenants.TenantNotFound, msps.MspNotFound):
            return False
