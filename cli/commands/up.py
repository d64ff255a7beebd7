"""`./admit up`."""

import click

from cli import startup
from cli.install import ensure_packages
from cli.layout import make_layout, require_writable, var_dir
from cli.output import Progress
from nac.kit.settings import url_host


@click.command()
@click.option(
    "--listen",
    metavar="ADDRESS",
    help="Listen address of RADIUS and the API; :: for IPv6 and IPv4 (default 127.0.0.1).",
)
@click.option("--first-port", metavar="PORT", help="First of the cell's UDP ports (default 18120).")
@click.option("--api-port", metavar="PORT", help="First of the API's four TCP ports (default 8460).")
@click.option("--no-install", is_flag=True, help="Report missing packages without installing them.")
@click.option("--demo/--no-demo", default=None, help="Create the demo tenants and show the board (default --demo).")
def command(
    listen: str | None,
    first_port: str | None,
    api_port: str | None,
    no_install: bool,
    demo: bool | None,
) -> None:
    """Install missing packages, start every process, and show the demo.

    The command saves all options except --no-install in var/admit.env, so that the next 'up' uses the same options.
    Exit status 0 if everything runs, even if a demo check fails.
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
    with startup.exclusive_lock(layout):
        progress.note(layout.describe())
        _build_portal(progress)
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


def _build_portal(progress: Progress) -> None:
    """Build the portal if its sources changed. A failure is only reported, because devices do not need the portal."""
    # Imported here because `--help` does not need Node.js.
    from cli import portal
    from cli.node import NodeFailed

    if portal.is_built():
        return
    try:
        with progress.step("portal", "built from portal/"):
            portal.build()
    except (NodeFailed, OSError) as exc:
        progress.note(f"The portal was not built, and everything else runs. To try again: ./admit up\n{exc}")


def _show_demo(started: startup.StartResult, progress: Progress) -> None:
    """Run the demo's checks, or show the last results of the checks if every process already ran.

    Failed checks do not change the exit status.
    """
    # Imported here because it loads the database libraries and the whole domain.
    from cli.demo.main import show_after_start, show_last_board

    if not started.anew and show_last_board(started.settings):
        progress.note(
            "All processes were already running, so these are the results of the last demo. To run the checks again:"
            " ./admit demo"
        )
    else:
        show_after_start()
