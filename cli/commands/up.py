"""`./admit up`."""

import click

from cli import startup
from cli.install import ensure_packages
from cli.layout import make_layout, require_writable, var_dir
from cli.progress import Progress
from nac.settings import url_host


@click.command()
@click.option(
    "--listen",
    metavar="ADDRESS",
    help="Address that RADIUS and the API listen on; :: for IPv6 and IPv4 [127.0.0.1 at first].",
)
@click.option("--first-port", metavar="PORT", help="First of the cell's UDP ports [18120 at first].")
@click.option("--api-port", metavar="PORT", help="First of the API's three TCP ports [8460 at first].")
@click.option("--no-install", is_flag=True, help="Only name the packages that are missing.")
@click.option(
    "--demo/--no-demo", default=None, help="Whether to make the demo tenants and show the board [--demo at first]."
)
def command(
    listen: str | None,
    first_port: str | None,
    api_port: str | None,
    no_install: bool,
    demo: bool | None,
) -> None:
    """Install what is missing, start every process, and show the demo.

    Choices but --no-install are kept in var/admit.env: the next 'up' needs none of them again. Exit status 0 when
    everything runs, also where a row of the demo is not as expected.
    """
    progress = Progress()
    require_writable(var_dir())
    ensure_packages(progress, install=not no_install, log=var_dir() / "log" / "install.log")
    layout = make_layout()
    options = {
        "LISTEN_ADDRESS": listen,
        "CELL_FIRST_PORT": first_port,
        "API_PORT": api_port,
        "DEMO": {True: "yes", False: "no", None: None}[demo],
    }
    choices = {f"ADMIT_{name}": value for name, value in options.items() if value is not None}
    with startup.exclusive(layout):
        progress.note(layout.describe())
        started = startup.start(layout, choices, progress)
    settings = started.settings
    progress.note(
        f"RADIUS: UDP {settings.listen_address}, ports {settings.cell_ports.start} to {settings.cell_ports[-1]}"
    )
    progress.note(f"API: http://{url_host(settings.listen_address)}:{settings.api_port}/")
    progress.note(f"Public: {settings.public_url}/")
    progress.note(f"Enrolment: {settings.enrolment_url}/")
    if settings.demo:
        _show_demo(started, progress)


def _show_demo(started: startup.Started, progress: Progress) -> None:
    """Run the board, or show the last one where every process ran already. What it finds is no failure to start."""
    # Here, because it loads the database libraries and the whole domain.
    from cli.demo.main import show_last, show_new

    if not started.anew and show_last(started.settings):
        progress.note("This is the board as it was: nothing had to be started. Run it again: ./admit demo")
    else:
        show_new()
