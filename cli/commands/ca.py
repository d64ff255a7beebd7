"""`./admit ca`."""

from pathlib import Path

import click
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy.orm import Session

from cli.commands import _ca_trust
from cli.commands._ca_rows import authority_row, status_rows
from cli.domain import Domain
from cli.fail import Refused
from cli.output import Row, json_option, show_list, show_one, tenant_option
from nac.certificates import external
from nac.certificates import service as certificates
from nac.ids import TenantId
from nac.models import CertificateAuthority


@click.group()
def command() -> None:
    """Certificate authorities of a tenant."""


for trusting in _ca_trust.COMMANDS:
    command.add_command(trusting)


def _full_row(session: Session, tenant_id: TenantId, authority: CertificateAuthority) -> Row:
    certificate = x509.load_der_x509_certificate(authority.certificate_der)
    source = external.get_source(session, tenant_id=tenant_id, authority_id=authority.id)
    return authority_row(session, tenant_id, authority) | {
        "not_before": authority.not_before.isoformat(),
        "subject": authority.subject,
        "key_id": authority.key_id.hex(),
        "sha256": certificate.fingerprint(hashes.SHA256()).hex(":"),
        "signs_here": authority.key_sealed is not None,
        "issuer": str(authority.issuer_id or ""),
        **status_rows(source),
    }


@command.command("list")
@tenant_option
@json_option
def list_(tenant: str, as_json: bool) -> None:
    """List the authorities."""
    with Domain().tenant(tenant) as (session, tenant_id):
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
    """Show AUTHORITY: an id, or root or issuing for the newest of its kind [root]."""
    with Domain().tenant(tenant) as (session, tenant_id):
        found = certificates.require_authority(session, tenant_id=tenant_id, which=authority)
        row = _full_row(session, tenant_id, found)
    show_one(row, as_json=as_json)


@command.command()
@click.argument("authority", default="root")
@tenant_option
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="File to write instead of showing it.")
@json_option
def export(authority: str, tenant: str, out: Path | None, as_json: bool) -> None:
    """Export the certificate of AUTHORITY as PEM: the root is what devices must trust."""
    with Domain().tenant(tenant) as (session, tenant_id):
        found = certificates.require_authority(session, tenant_id=tenant_id, which=authority)
        shown = authority_row(session, tenant_id, found)
    pem = x509.load_der_x509_certificate(found.certificate_der).public_bytes(Encoding.PEM).decode()
    if out is not None:
        try:
            out.write_text(pem)
        except OSError as exc:
            raise Refused(f"It cannot be written: {exc.strerror}.", place=str(out)) from exc
        show_one(shown | {"file": str(out)}, as_json=as_json)
    elif as_json:
        show_one(shown | {"pem": pem}, as_json=True)
    else:
        click.echo(pem, nl=False)
