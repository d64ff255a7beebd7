"""`./admit demo`."""

import click

from cli.demo.main import main


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs: the rows, and what a RADIUS client needs.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Try two demo tenants with real supplicants and NASes. Exit status 1 unless everything is as expected.

    Takes half a minute, after which a device is known to have fallen silent. 'up' leaves that check out.
    """
    ctx.exit(main(json=as_json, with_long=True))
