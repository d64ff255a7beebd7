"""What `./admit demo` and `./admit up` call."""

import click

from cli.demo.board import Board, last_board, run_board
from cli.demo.text import WAY_BACK, render, render_differing
from cli.domain import Domain
from nac.errors import AdmitError
from nac.settings import Settings


def main(*, json: bool, with_long: bool) -> int:
    """Seed, run and show the board; the exit status. Needs click's context."""
    return show(run_board(Domain(), with_long=with_long), as_json=json)


def show_new() -> None:
    """Seed, run and show the board after a start; what differs is told, with the way back to the demo."""
    try:
        board = run_board(Domain(), with_long=False)
    except AdmitError as exc:
        click.echo(f"Everything runs, but the demo cannot be shown: {exc}\n{WAY_BACK}")
        return
    show(board, as_json=False)
    if not board.ok:
        click.echo(render_differing(board))


def show(board: Board, *, as_json: bool) -> int:
    """0 if every row is as expected, else 1."""
    click.echo(board.to_json() if as_json else render(board), nl=not as_json)
    return 0 if board.ok else 1


def show_last(settings: Settings) -> bool:
    """Show the board that was run last, if it was well and is there; says whether it did."""
    board = last_board(settings)
    if board is None or not board.ok:
        return False
    click.echo(render(board))
    return True
