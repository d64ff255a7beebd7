"""`./admit enrol`."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from sqlalchemy.orm import Session

from cli.commands._client_profiles import CLIENT_PROFILES
from cli.domain import Domain
from cli.fail import Refused
from cli.moments import Lifetime
from cli.output import Row, json_option, show_list, show_one, tenant_option
from nac.clock import utc_now
from nac.enrolment import service as enrolment
from nac.ids import TenantId
from nac.models import EnrolmentSecret
from nac.supplicants import service as supplicants
from nac.tenants import service as tenants

F = TypeVar("F", bound=Callable[..., object])
_OF_ALL_SECRETS = (
    click.option(
        "--profile",
        type=click.Choice(list(CLIENT_PROFILES)),
        default="device",
        show_default=True,
        help="What it is for.",
    ),
    click.option(
        "--san",
        "sans",
        multiple=True,
        metavar="KIND:VALUE",
        help="An alternative name that it is bound to; repeatable.",
    ),
    click.option(
        "--endpoint", "endpoint_mac", metavar="MAC", help="The endpoint that it is for; its name unless --name."
    ),
    click.option("--user", "user_name", metavar="NAME", help="The user that it is for; its name unless --name."),
    click.option("--owner", default="", help="Whose the device is, in words."),
    click.option("--life", type=Lifetime(), default="7d", show_default=True, help="How long it is good: 15m, 2h, 7d."),
)
ssid_option = click.option("--ssid", default="", help="The Wi-Fi network; without it a wired one.")


@click.group()
def command() -> None:
    """Enrolment: one-time secrets and links to certificates, device setup. See docs/how-to/enrolment.md."""


def secret_options(command: F) -> F:
    """What every secret is made with, under the names that `create_secret` has for it."""
    for option in reversed(_OF_ALL_SECRETS):
        command = option(command)
    return command


def _row(secret: EnrolmentSecret) -> dict[str, object]:
    return enrolment.describe_secret(secret) | {"status": enrolment.get_status(secret, utc_now())}


@command.command()
@tenant_option
@click.option("--name", "common_name", help="Common name of the certificate.")
@secret_options
@click.option("--ssid", default="", help="The Wi-Fi network that an Apple profile sets up.")
@json_option
def link(tenant: str, as_json: bool, **chosen: Any) -> None:  # noqa: ANN401 -- of `create_secret`
    """Make a link by which a person is given one certificate: as PKCS#12, as an Apple profile, or for a request.

    Who has the link has the certificate: send it to its owner alone. To look at the page takes nothing.
    """
    domain = Domain()
    with domain.tenant(tenant) as (session, tenant_id):
        made = _make(session, domain, tenant_id, kind="link", **chosen)
        row = {"url": f"{domain.settings.link_url}/enrol/{made.token.reveal()}"} | _row(made.row)
    show_one(row, as_json=as_json)


@command.command()
@tenant_option
@click.option("--kind", type=click.Choice(["est", "scep"]), default="est", show_default=True, help="Where it is shown.")
@click.option("--id", "name", metavar="NAME", help="A user name for EST instead of the one that is made up.")
@click.option("--name", "common_name", help="Common name that it is bound to.")
@secret_options
@click.option("--uses", type=int, default=1, show_default=True, help="How often it is good.")
@click.option("--any-name", is_flag=True, help="The device chooses its names.")
@json_option
def secret(tenant: str, as_json: bool, **chosen: Any) -> None:  # noqa: ANN401 -- of `create_secret`
    """Make a one-time secret for EST (user and secret of HTTP basic authentication) or SCEP (the challenge).

    It is shown this once and stored as a hash. A secret for one use needs --name, --san, --endpoint or --user, or
    --any-name. One for several uses without a name lets each device choose its names.
    """
    domain = Domain()
    with domain.tenant(tenant) as (session, tenant_id):
        made = _make(session, domain, tenant_id, **chosen)
        row = _shown(domain, tenant, made) | _row(made.row)
    show_one(row, as_json=as_json)


def _make(
    session: Session,
    domain: Domain,
    tenant_id: TenantId,
    *,
    profile: str,
    **chosen: Any,  # noqa: ANN401
) -> enrolment.CreatedSecret:
    return enrolment.create_secret(
        session, actor=domain.actor, tenant_id=tenant_id, profile=CLIENT_PROFILES[profile], now=utc_now(), **chosen
    )


def _shown(domain: Domain, tenant: str, made: enrolment.CreatedSecret) -> dict[str, object]:
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
    """List the secrets and links. The secrets themselves are not stored."""
    with Domain().tenant(tenant) as (session, tenant_id):
        found = enrolment.ORDERS.pages(lambda span: enrolment.list_secrets(session, tenant_id=tenant_id, span=span))
        rows: list[Row] = [_row(row) for page in found for row in page]
    if not as_json:
        left_out = ("sans", "owner", "ssid")
        rows = [{name: value for name, value in row.items() if name not in left_out} for row in rows]
    show_list(rows, as_json=as_json)


@command.command()
@click.argument("name", metavar="ID")
@tenant_option
@json_option
def revoke(name: str, tenant: str, as_json: bool) -> None:
    """Revoke the secret or link ID: it gives out nothing more. What it gave out stays good."""
    domain = Domain()
    with domain.tenant(tenant) as (session, tenant_id):
        row = _row(enrolment.revoke_secret(session, actor=domain.actor, tenant_id=tenant_id, name=name))
    show_one(row, as_json=as_json)


@command.command()
@tenant_option
@click.option("--form", type=click.Choice(list(supplicants.EXPORTERS)), required=True, help="For which system.")
@ssid_option
@click.option("--identity", default="device", show_default=True, help="What the device calls itself (EAP identity).")
@click.option(
    "--server-name",
    "server_names",
    multiple=True,
    metavar="DNS",
    help="Another name that a server may have; repeatable.",
)
@click.option(
    "--device-folder",
    default="/etc/admit",
    show_default=True,
    help="Where a Linux device has these files, device.pem and device.key.",
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder for the files.")
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
    """Export how devices are set up: EAP-TLS, the tenant's roots, the names of its servers. No key, no secret."""
    with Domain().tenant(tenant) as (session, tenant_id):
        network = supplicants.describe_network(
            session, tenant_id=tenant_id, now=utc_now(), ssid=ssid, server_names=server_names
        )
    files = supplicants.export_files(network, form=form, identity=identity, folder=device_folder)
    paths = _write(out, files)
    row: dict[str, object] = {"network": network.title, "server_names": list(network.server_names)}
    show_one(row | ({"files": paths} if as_json else paths), as_json=as_json)


def _write(folder: Path, files: dict[str, bytes]) -> dict[str, str]:
    """Paths by name. Nothing is overwritten."""
    if taken := [name for name in files if (folder / name).exists()]:
        raise Refused(f"There is already {', '.join(taken)}.", place=str(folder), remedy="Choose another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            with os.fdopen(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as file:
                file.write(content)
    except OSError as exc:
        raise Refused(f"It cannot be written: {exc.strerror}.", place=str(folder)) from exc
    return {name: str(folder / name) for name in files}


@command.command()
@tenant_option
@click.option("--same-key/--new-key", "keeps_key", required=True, help="Whether a renewal may keep its key.")
@json_option
def renewal(tenant: str, keeps_key: bool, as_json: bool) -> None:
    """Set whether a certificate is renewed with the key that it has, or with a new one alone, as at first."""
    domain = Domain()
    with domain.tenant(tenant) as (session, tenant_id):
        changed = tenants.update_renewal(session, actor=domain.actor, tenant_id=tenant_id, keeps_key=keeps_key)
        row = {"tenant": changed.slug, "renewal_keeps_key": changed.renewal_keeps_key}
    show_one(row, as_json=as_json)
