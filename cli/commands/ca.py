"""`./admit ca`."""

from pathlib import Path

import click
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from cli.domain import Domain
from cli.fail import Refused
from cli.output import Row, json_option, show_list, show_one, tenant_option
from nac.certificates import service as certificates
from nac.models import CertificateAuthority


@click.group()
def command() -> None:
    """Certificate authorities of a tenant."""


def _row(authority: CertificateAuthority) -> dict[str, object]:
    return {
        "id": str(authority.id),
        "kind": authority.kind,
        "name": authority.name,
        "status": authority.status,
        "not_after": authority.not_after.isoformat(),
    }


def _full_row(authority: CertificateAuthority) -> Row:
    certificate = x509.load_der_x509_certificate(authority.certificate_der)
    return _row(authority) | {
        "not_before": authority.not_before.isoformat(),
        "subject": authority.subject,
        "key_id": authority.key_id.hex(),
        "sha256": certificate.fingerprint(hashes.SHA256()).hex(":"),
        "signs_here": authority.key_sealed is not None,
        "issuer": str(authority.issuer_id or ""),
    }


@command.command("list")
@tenant_option
@json_option
def list_(tenant: str, as_json: bool) -> None:
    """List the authorities."""
    with Domain().tenant(tenant) as (session, tenant_id):
        rows = [_row(authority) for authority in certificates.list_authorities(session, tenant_id=tenant_id)]
    show_list(rows, as_json=as_json)


@command.command()
@click.argument("authority", default="root")
@tenant_option
@json_option
def show(authority: str, tenant: str, as_json: bool) -> None:
    """Show AUTHORITY: an id, or root or issuing for the newest of its kind [root]."""
    with Domain().tenant(tenant) as (session, tenant_id):
        row = _full_row(certificates.require_authority(session, tenant_id=tenant_id, which=authority))
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
    pem = x509.load_der_x509_certificate(found.certificate_der).public_bytes(Encoding.PEM).decode()
    if out is not None:
        try:
            out.write_text(pem)
        except OSError as exc:
            raise Refused(f"It cannot be written: {exc.strerror}.", place=str(out)) from exc
        show_one(_row(found) | {"file": str(out)}, as_json=as_json)
    elif as_json:
        show_one(_row(found) | {"pem": pem}, as_json=True)
    else:
        click.echo(pem, nl=False)
