"""Entry points of `./admit demo` and `./admit up`."""

import click

from cli.command_context import CommandContext
from cli.demo.board import Board, read_last_board, run_board
from cli.demo.board_text import RESET_HINT, render_board, render_differences
from cli.errors import describe_error
from nac.kit.errors import AdmitError
from nac.kit.settings import Settings


def main(*, json: bool, with_long: bool) -> int:
    """Seed, run and show the board; returns the exit status. Needs click's context."""
    return show_board(run_board(CommandContext(), with_long=with_long), as_json=json)


def show_after_start() -> None:
    """Seed, run and show the board after a start. Reports differences, and how to reset the demo."""
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
    """Show the last board, if it exists and had no differences. Returns whether it did."""
    board = read_last_board(settings)
    if board is None or not board.ok:
        return False
    click.echo(render_board(board))
    return True
