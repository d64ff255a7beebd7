"""`./admit down`."""

import shutil
from pathlib import Path

import click

from cli import startup
from cli.errors import confirm
from cli.layout import Layout, find_arrangement, var_dir
from cli.output import Progress
from radius.agent.paths import CellPaths


@click.command()
@click.option("--purge", is_flag=True, help="Also delete all data: database, keys, certificates and logs.")
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
def command(purge: bool, yes: bool) -> None:
    """Stop every process of this checkout, including processes whose supervisor has ended."""
    layout = find_arrangement()
    if layout is None:
        click.echo("Nothing to stop: Admit was never started here.")
        return
    progress = Progress()
    if purge and not yes:
        confirm(f"Delete the database, keys and certificates in {_places(layout)}?")
    with startup.exclusive_lock(layout):
        with progress.step("down", "stopped all processes"):
            left_behind = startup.stop(layout)
        if left_behind:
            progress.note(f"{left_behind} processes had no supervisor")
        if purge:
            with progress.step("purge", f"deleted {_places(layout)}"):
                for folder in _folders(layout):
                    shutil.rmtree(folder, ignore_errors=False)


def _folders(layout: Layout) -> list[Path]:
    """Return the folders to delete.

    Folders outside var/ come first, because a file in var/ contains the paths of these folders.
    """
    outside = [layout.postgres.parent] if not layout.postgres.is_relative_to(layout.var) else []
    outside += [layout.run] if not layout.run.is_relative_to(layout.var) else []
    outside += [CellPaths(cell).sessions for cell in (layout.var / "cells").glob("*")]
    return [folder for folder in (*outside, var_dir()) if folder.exists()]


def _places(layout: Layout) -> str:
    return " and ".join(str(folder) for folder in _folders(layout))
