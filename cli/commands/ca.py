"""`./admit ca`."""

import os
from datetime import datetime
from pathlib import Path
from typing import cast

import click
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy.orm import Session

from cli.certificate_files import read_password_file
from cli.command_context import CommandContext
from cli.commands import _ca_trust
from cli.commands._ca_rows import authority_row, status_rows
from cli.errors import Refused
from cli.output import Row, json_option, show_list, show_one, tenant_option
from cli.time_options import moment_option
from nac.certificates import external_authorities, offline_root, profiles, rollover
from nac.certificates import service as certificates
from nac.kit.clock import utc_now
from nac.kit.errors import InvalidInput
from nac.kit.ids import TenantId
from nac.models import CertificateAuthority


@click.group()
def command() -> None:
    """Manage certificate authorities of a tenant."""


for trusting in _ca_trust.COMMANDS:
    command.add_command(trusting)


def _full_row(session: Session, tenant_id: TenantId, authority: CertificateAuthority) -> Row:
    certificate = x509.load_der_x509_certificate(authority.certificate_der)
    source = external_authorities.get_status_source(session, tenant_id=tenant_id, authority_id=authority.id)
    return authority_row(session, tenant_id, authority) | {
        "not_before": authority.not_before.isoformat(),
        "subject": authority.subject,
        "key_id": authority.key_id.hex(),
        "sha256": certificate.fingerprint(hashes.SHA256()).hex(":"),
        "signs_here": authority.key_sealed is not None,
        "key_store": authority.key_store if authority.key_sealed is not None else None,
        "issuer": str(authority.issuer_id or ""),
        **status_rows(session, source),
    }


@command.command("list")
@tenant_option
@json_option
def list_(tenant: str, as_json: bool) -> None:
    """List the authorities."""
    with CommandContext().tenant(tenant) as (session, tenant_id):
        rows = [
            authority_row(session, tenant_id, authority)
            for authority in certificates.list_authorities(session, tenant_id=tenant_id)
        ]
    show_list(rows, as_json=as_json)


@command.command()
@click.argument("authority", default="root")
@tenant_option
@json_option
def show(authority: str, tenant: str, as_json: bool) -> None:
    """Show AUTHORITY: an id, or the newest `root` or `issuing` authority (default root)."""
    with CommandContext().tenant(tenant) as (session, tenant_id):
        stored = certificates.require_authority(session, tenant_id=tenant_id, which=authority)
        row = _full_row(session, tenant_id, stored)
    show_one(row, as_json=as_json)


@command.command()
@click.argument("authority", default="root")
@tenant_option
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Output file (default standard output).")
@json_option
def export(authority: str, tenant: str, out: Path | None, as_json: bool) -> None:
    """Export the certificate of AUTHORITY as PEM. Devices must trust the root."""
    with CommandContext().tenant(tenant) as (session, tenant_id):
        row = certificates.require_authority(session, tenant_id=tenant_id, which=authority)
        authority_data = authority_row(session, tenant_id, row)
    pem = x509.load_der_x509_certificate(row.certificate_der).public_bytes(Encoding.PEM).decode()
    if out is not None:
        try:
            out.write_text(pem)
        except OSError as exc:
            raise Refused(f"Cannot write the file: {exc.strerror}.", place=str(out)) from exc
        show_one(authority_data | {"file": str(out)}, as_json=as_json)
    elif as_json:
        show_one(authority_data | {"pem": pem}, as_json=True)
    else:
        click.echo(pem, nl=False)


@command.command("rollover")
@tenant_option
@click.option("--root", "of_root", is_flag=True, help="Also create a new root.")
@moment_option("--present-from", help="Start of the new server certificate (UTC, default now).")
@json_option
def rollover_(tenant: str, of_root: bool, present_from: datetime | None, as_json: bool) -> None:
    """Create a new issuing authority and retire the current one.

    Certificates of the retired authority stay valid. With --root, the cell presents a chain to both the old and the new
    root. Install the new root on devices before the old one expires.
    """
    if present_from and not of_root:
        raise InvalidInput("Only valid with --root.", place="--present-from")
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        plan = rollover.plan_rollover(
            session, tenant_id=tenant_id, signing=domain.signing, of_root=of_root, server_from=present_from
        )
    with domain.change(tenant) as (session, _):
        done = rollover.execute_rollover(session, plan, actor=domain.actor, signing=domain.signing, now=utc_now())
        row = {
            **_full_row(session, tenant_id, done.issuing),
            "root": str(done.root.id),
            "root_is_new": of_root,
            "retired": [str(authority.id) for authority in done.retired],
            "server_certificate": done.server.serial.hex() if done.server else "",
        }
    show_one(row, as_json=as_json)


@command.command("key-store")
@click.argument("store", type=click.Choice(["sealed", "pkcs11", "platform"]))
@tenant_option
@json_option
def key_store(store: str, tenant: str, as_json: bool) -> None:
    """Set where keys of new authorities are stored: sealed in the database, in a PKCS#11 token, or the platform's
    default.

    Existing keys do not move. Create new ones with ./admit ca rollover.
    """
    chosen = cast(profiles.KeyStoreChoice, "" if store == "platform" else store)
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        profiles.update_key_store(session, actor=domain.actor, tenant_id=tenant_id, store=chosen)
    show_one({"tenant": tenant, "key_store": store}, as_json=as_json)


_passphrase_option = click.option(
    "--passphrase-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="File whose first line (16 characters or more) is the passphrase of the exported key.",
)


@command.command("export-root-key")
@tenant_option
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="Output file.")
@_passphrase_option
@click.option("--forget", is_flag=True, help="Delete the key in Admit, which takes the root offline.")
@json_option
def export_root_key(tenant: str, out: Path, passphrase_file: Path, forget: bool, as_json: bool) -> None:
    """Export the root's key to a file, encrypted with a passphrase."""
    passphrase = read_password_file(passphrase_file)
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        root, pem = offline_root.export_root_key(
            session, actor=domain.actor, tenant_id=tenant_id, passphrase=passphrase, signing=domain.signing
        )
        row = _full_row(session, tenant_id, root)
    try:
        with open(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
    except OSError as exc:
        raise Refused(f"Cannot write the file: {exc.strerror}.", place=str(out)) from exc
    if forget:
        # Only after the file is on disk.
        with domain.tenant(tenant) as (session, tenant_id):
            root = offline_root.forget_root_key(session, actor=domain.actor, tenant_id=tenant_id)
            row = _full_row(session, tenant_id, root)
    show_one({**row, "file": str(out)}, as_json=as_json)


@command.command("import-root-key")
@tenant_option
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_passphrase_option
@json_option
def import_root_key(tenant: str, file: Path, passphrase_file: Path, as_json: bool) -> None:
    """Import the root's key from FILE, to sign an issuing authority with it."""
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        root = offline_root.import_root_key(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            pem=file.read_bytes(),
            passphrase=read_password_file(passphrase_file),
            signing=domain.signing,
        )
        row = _full_row(session, tenant_id, root)
    show_one(row, as_json=as_json)
