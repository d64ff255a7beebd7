"""`./admit enrol profile`."""

import base64
import os
from pathlib import Path

import click

from cli.errors import Refused
from cli.output import json_option, show_one, tenant_option
from cli.remote.commands import call_operation
from cli.remote.local_api import connect


@click.group()
def command() -> None:
    """Manage enrolment: one-time secrets, links and device setup (docs/how-to/enrolment.md)."""


@command.command()
@tenant_option
@click.option(
    "--form",
    type=click.Choice(("apple", "windows", "wpa_supplicant", "networkmanager", "android")),
    required=True,
    help="Operating system or supplicant of the device.",
)
@click.option("--ssid", default="", help="SSID of the Wi-Fi network (default: wired network).")
@click.option("--identity", default="device", show_default=True, help="EAP identity of the device.")
@click.option(
    "--server-name",
    "server_names",
    multiple=True,
    metavar="DNS",
    help="Additional name of a RADIUS server; repeatable.",
)
@click.option(
    "--device-folder",
    default="/etc/admit",
    show_default=True,
    help="Folder on a Linux device that contains the downloaded files, device.pem and device.key.",
)
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Output folder for the files."
)
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
    """Export device settings with EAP-TLS, the tenant's root certificates and the server names.

    Contains no key or secret.
    """
    network = call_operation(
        connect(),
        "get-device-set-up",
        tenant=tenant,
        form=form,
        ssid=ssid,
        identity=identity,
        server_name=server_names,
        device_folder=device_folder,
    )
    paths = _write(out, {file["name"]: base64.b64decode(file["content"]) for file in network.pop("files")})
    show_one(network | ({"files": paths} if as_json else paths), as_json=as_json)


def _write(folder: Path, files: dict[str, bytes]) -> dict[str, str]:
    """Write the files and return their paths by name. Never overwrites a file."""
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
