"""`./admit demo`."""

import click

from cli.errors import confirm


@click.command()
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print JSON with the results of the checks, and the settings of a RADIUS client.",
)
@click.option("--reset", is_flag=True, help="Delete the demo's tenants with all data before the demo starts.")
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@click.pass_context
def command(ctx: click.Context, as_json: bool, reset: bool, yes: bool) -> None:
    """Test two demo tenants with real supplicants and NASes. Exit status 1 if a result is not as expected.

    The demo takes half a minute, because one check waits until Admit logs a device that does not respond. './admit up'
    skips this slow check.
    """
    # Imported here because they load the domain, which the help does not need.
    from cli.command_context import CommandContext
    from cli.demo.main import main, remove_tenants
    from cli.demo.seed import TENANTS

    if reset:
        if not yes:
            confirm(f"Delete the tenants {' and '.join(TENANTS)} with all their data?")
        remove_tenants(CommandContext())
    ctx.exit(main(json=as_json, with_long=True))
