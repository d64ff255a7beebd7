"""`./admit enrol`."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from cli.command_context import CommandContext
from cli.commands._client_profiles import CLIENT_PROFILES
from cli.errors import Refused
from cli.output import json_option, show_one, tenant_option
from cli.time_options import DurationType
from nac.certificates.supplicants import service as supplicants
from nac.kit.clock import utc_now

F = TypeVar("F", bound=Callable[..., object])
_OF_ALL_SECRETS = (
    click.option(
        "--profile",
        type=click.Choice(list(CLIENT_PROFILES)),
        default="device",
        show_default=True,
        help="Profile of the certificate.",
    ),
    click.option(
        "--san",
        "sans",
        multiple=True,
        metavar="KIND:VALUE",
        help="Required alternative name; repeatable.",
    ),
    click.option(
        "--endpoint",
        "endpoint_mac",
        metavar="MAC",
        help="Endpoint that gets the certificate; also sets the common name unless --name is used.",
    ),
    click.option(
        "--user",
        "user_name",
        metavar="NAME",
        help="User that gets the certificate; also sets the common name unless --name is used.",
    ),
    click.option("--owner", default="", help="Owner of the device."),
    click.option(
        "--life",
        type=DurationType(),
        default="7d",
        show_default=True,
        help="Lifetime of the secret or link, such as 15m, 2h or 7d.",
    ),
)
ssid_option = click.option("--ssid", default="", help="Wi-Fi network (default: wired network).")


@click.group()
def command() -> None:
    """Manage enrolment: one-time secrets, links and device setup (docs/how-to/enrolment.md)."""


@command.command()
@tenant_option
@click.option(
    "--form", type=click.Choice(list(supplicants.EXPORTERS)), required=True, help="Operating system or supplicant."
)
@ssid_option
@click.option("--identity", default="device", show_default=True, help="EAP identity of the device.")
@click.option(
    "--server-name",
    "server_names",
    multiple=True,
    metavar="DNS",
    help="Additional name of a server; repeatable.",
)
@click.option(
    "--device-folder",
    default="/etc/admit",
    show_default=True,
    help="Folder of these files, device.pem and device.key on a Linux device.",
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Output folder.")
@json_option
def profile(
    tenant: str,
    form: str,
    ssid: str,
    identity: str,
    server_names: tuple[str, ...],
    device_folder: str,
    out: Path,
    as_json: bool,
) -> None:
    """Export device settings: EAP-TLS, the tenant's roots and server names. Contains no key or secret."""
    with CommandContext().tenant(tenant) as (session, tenant_id):
        network = supplicants.describe_network(
            session, tenant_id=tenant_id, now=utc_now(), ssid=ssid, server_names=server_names
        )
    files = supplicants.export_files(network, form=form, identity=identity, folder=device_folder)
    paths = _write(out, files)
    row: dict[str, object] = {"network": network.title, "server_names": list(network.server_names)}
    show_one(row | ({"files": paths} if as_json else paths), as_json=as_json)


def _write(folder: Path, files: dict[str, bytes]) -> dict[str, str]:
    """Write files and return paths by name. Never overwrites a file."""
    if taken := [name for name in files if (folder / name).exists()]:
        raise Refused(
            f"The folder already contains {', '.join(taken)}.", place=str(folder), remedy="Use another folder."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            with os.fdopen(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as file:
                file.write(content)
    except OSError as exc:
        raise Refused(f"Cannot write the files: {exc.strerror}.", place=str(folder)) from exc
    return {name: str(folder / name) for name in files}
