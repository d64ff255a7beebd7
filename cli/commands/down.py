"""`./admit down`."""

import shutil
from pathlib import Path

import click

from cli import startup
from cli.fail import confirm
from cli.layout import Layout, find_arrangement, var_dir
from cli.progress import Progress
from radius.agent.paths import CellPaths


@click.command()
@click.option("--purge", is_flag=True, help="Then remove all data: database, keys, certificates, logs.")
@click.option("--yes", is_flag=True, help="Do not ask before removing data.")
def command(purge: bool, yes: bool) -> None:
    """End every process of this checkout, those included that an ended supervisor left behind."""
    layout = find_arrangement()
    if layout is None:
        click.echo("Nothing to stop: Admit was never started here.")
        return
    progress = Progress()
    if purge and not yes:
        confirm(f"Remove the database, keys and certificates in {_places(layout)}?")
    with startup.exclusive(layout):
        with progress.step("down", "all processes ended"):
            left_behind = startup.stop(layout)
        if left_behind:
            progress.note(f"{left_behind} of them had no supervisor any more")
        if purge:
            with progress.step("purge", f"removed {_places(layout)}"):
                for folder in _folders(layout):
                    shutil.rmtree(folder, ignore_errors=False)


def _folders(layout: Layout) -> list[Path]:
    """Those outside var/ first: var/ knows where they are."""
    outside = [layout.postgres.parent] if not layout.postgres.is_relative_to(layout.var) else []
    outside += [layout.run] if not layout.run.is_relative_to(layout.var) else []
    outside += [CellPaths(cell).sessions for cell in (layout.var / "cells").glob("*")]
    return [folder for folder in (*outside, var_dir()) if folder.exists()]


def _places(layout: Layout) -> str:
    return " and ".join(str(folder) for folder in _folders(layout))
