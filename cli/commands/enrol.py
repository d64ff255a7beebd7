"""`./admit enrol`."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from sqlalchemy.orm import Session

from cli.command_context import CommandContext
from cli.commands._client_profiles import CLIENT_PROFILES
from cli.errors import Refused
from cli.output import Row, json_option, show_list, show_one, tenant_option
from cli.time_options import DurationType
from nac.certificates.enrolment import service as enrolment
from nac.certificates.supplicants import service as supplicants
from nac.kit.clock import utc_now
from nac.kit.ids import TenantId
from nac.models import EnrolmentSecret
from nac.tenancy.tenants import service as tenants

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


def secret_options(command: F) -> F:
    """Add the options of every secret, named like the parameters of `create_secret`."""
    for option in reversed(_OF_ALL_SECRETS):
        command = option(command)
    return command


def _row(secret: EnrolmentSecret) -> dict[str, object]:
    return enrolment.describe_secret(secret) | {"status": enrolment.get_status(secret, utc_now())}


@command.command()
@tenant_option
@click.option("--name", "common_name", help="Common name of the certificate.")
@secret_options
@click.option("--ssid", default="", help="Wi-Fi network in the Apple profile.")
@json_option
def link(tenant: str, as_json: bool, **chosen: Any) -> None:  # noqa: ANN401 -- of `create_secret`
    """Create a link to one certificate, as PKCS#12, as an Apple profile or for a signing request.

    Anyone with the link can get the certificate, so send it only to the owner. Opening the page does not use up the
    link.
    """
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        made = _make(session, domain, tenant_id, kind="link", **chosen)
        row = {"url": f"{domain.settings.link_url}/enrol/{made.token.reveal()}"} | _row(made.row)
    show_one(row, as_json=as_json)


@command.command()
@tenant_option
@click.option(
    "--kind",
    type=click.Choice(["est", "scep"]),
    default="est",
    show_default=True,
    help="Protocol that uses the secret.",
)
@click.option("--id", "name", metavar="NAME", help="User name for EST (default random).")
@click.option("--name", "common_name", help="Required common name.")
@secret_options
@click.option("--uses", type=int, default=1, show_default=True, help="Number of certificates.")
@click.option("--any-name", is_flag=True, help="Let the device choose its names.")
@json_option
def secret(tenant: str, as_json: bool, **chosen: Any) -> None:  # noqa: ANN401 -- of `create_secret`
    """Create an enrolment secret: user name and password for EST, or the challenge for SCEP.

    The secret is displayed only once and stored as a hash. For one use, set --name, --san, --endpoint, --user or --any-
    name. For several uses without a name, each device chooses its names.
    """
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        made = _make(session, domain, tenant_id, **chosen)
        row = _secret_values(domain, tenant, made) | _row(made.row)
    show_one(row, as_json=as_json)


def _make(
    session: Session,
    domain: CommandContext,
    tenant_id: TenantId,
    *,
    profile: str,
    **chosen: Any,  # noqa: ANN401
) -> enrolment.CreatedSecret:
    return enrolment.create_secret(
        session, actor=domain.actor, tenant_id=tenant_id, profile=CLIENT_PROFILES[profile], now=utc_now(), **chosen
    )


def _secret_values(domain: CommandContext, tenant: str, made: enrolment.CreatedSecret) -> dict[str, object]:
    if made.row.kind == "scep":
        return {"url": f"{domain.settings.public_url}/scep/{tenant}", "challenge": made.token.reveal()}
    return {
        "url": f"{domain.settings.enrolment_url}/.well-known/est/{tenant}",
        "user": made.row.name or made.row.public_id,
        "secret": made.token.secret,
    }


@command.command("list")
@tenant_option
@json_option
def list_(tenant: str, as_json: bool) -> None:
    """List secrets and links. The secret values are not stored."""
    with CommandContext().tenant(tenant) as (session, tenant_id):
        pages = enrolment.ORDERS.pages(lambda span: enrolment.list_secrets(session, tenant_id=tenant_id, span=span))
        rows: list[Row] = [_row(row) for page in pages for row in page]
    if not as_json:
        left_out = ("sans", "owner", "ssid")
        rows = [{name: value for name, value in row.items() if name not in left_out} for row in rows]
    show_list(rows, as_json=as_json)


@command.command()
@click.argument("name", metavar="ID")
@tenant_option
@json_option
def revoke(name: str, tenant: str, as_json: bool) -> None:
    """Revoke the secret or link ID. Its certificates stay valid."""
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        row = _row(enrolment.revoke_secret(session, actor=domain.actor, tenant_id=tenant_id, name=name))
    show_one(row, as_json=as_json)


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


@command.command()
@tenant_option
@click.option(
    "--same-key/--new-key",
    "keeps_key",
    required=True,
    help="Whether a renewal may keep its key (initially --new-key).",
)
@json_option
def renewal(tenant: str, keeps_key: bool, as_json: bool) -> None:
    """Set whether a renewal may keep the key of its certificate."""
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        changed = tenants.update_renewal(session, actor=domain.actor, tenant_id=tenant_id, keeps_key=keeps_key)
        row = {"tenant": changed.slug, "renewal_keeps_key": changed.renewal_keeps_key}
    show_one(row, as_json=as_json)
