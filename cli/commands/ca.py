"""`./admit ca`."""

import os
from pathlib import Path

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
from cli.output import Row, json_option, show_one, tenant_option
from nac.certificates import external_authorities, offline_root
from nac.certificates import service as certificates
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


@command.command()
@click.argument("authority", default="root")
@tenant_option
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Output file (default standard output).")
@json_option
def export(authority: str, tenant: str, out: Path | None, as_json: bool) -> None:
    """Export the certificate of AUTHORITY as PEM. Devices must trust the root."""
    with CommandContext().tenant(tenant) as (session, tenant_id):
        found = certificates.require_authority(session, tenant_id=tenant_id, which=authority)
        shown = authority_row(session, tenant_id, found)
    pem = x509.load_der_x509_certificate(found.certificate_der).public_bytes(Encoding.PEM).decode()
    if out is not None:
        try:
            out.write_text(pem)
        except OSError as exc:
            raise Refused(f"Cannot write the file: {exc.strerror}.", place=str(out)) from exc
        show_one(shown | {"file": str(out)}, as_json=as_json)
    elif as_json:
        show_one(shown | {"pem": pem}, as_json=True)
    else:
        click.echo(pem, nl=False)


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
