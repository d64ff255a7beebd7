"""Entry points of `./admit demo` and `./admit up`."""

import click

from cli.demo.board import Board, last_board, run_board
from cli.demo.text import WAY_BACK, render, render_differing
from cli.domain import Domain
from nac.errors import AdmitError
from nac.settings import Settings


def main(*, json: bool, with_long: bool) -> int:
    """Seed, run and show the board; returns the exit status. Needs click's context."""
    return show(run_board(Domain(), with_long=with_long), as_json=json)


def show_new() -> None:
    """Seed, run and show the board after a start. Reports differences, and how to reset the demo."""
    try:
        board = run_board(Domain(), with_long=False)
    except AdmitError as exc:
        click.echo(f"Admit is running, but the demo failed: {exc}\n{WAY_BACK}")
        return
    show(board, as_json=False)
    if not board.ok:
        click.echo(render_differing(board))


def show(board: Board, *, as_json: bool) -> int:
    """Show the board; returns 0 if all rows are as expected, otherwise 1."""
    click.echo(board.to_json() if as_json else render(board), nl=not as_json)
    return 0 if board.ok else 1


def show_last(settings: Settings) -> bool:
    """Show the last board, if it exists and had no differences. Returns whether it did."""
    board = last_board(settings)
    if board is None or not board.ok:
        return False
    click.echo(render(board))
    return True
