"""`./admit demo`."""

import click

from cli.demo.main import main
from cli.demo.reset import remove_tenants
from cli.demo.seed import TENANTS
from cli.domain import Domain
from cli.fail import confirm


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs: the rows, and what a RADIUS client needs.")
@click.option("--reset", is_flag=True, help="First remove the demo's tenants, with all that was changed in them.")
@click.option("--yes", is_flag=True, help="Do not ask before removing them.")
@click.pass_context
def command(ctx: click.Context, as_json: bool, reset: bool, yes: bool) -> None:
    """Try two demo tenants with real supplicants and NASes. Exit status 1 unless everything is as expected.

    Takes half a minute, after which a device is known to have fallen silent. 'up' leaves that check out.
    """
    if reset:
        if not yes:
            confirm(f"Remove the tenants {' and '.join(TENANTS)} with all their data?")
        remove_tenants(Domain())
    ctx.exit(main(json=as_json, with_long=True))
