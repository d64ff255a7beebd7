"""`./admit cert`."""

import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import click
from sqlalchemy.orm import Session

from cli.command_context import CommandContext
from cli.errors import Refused
from cli.files import read_password_file
from cli.output import Row, iterate_pages, json_option, show_list, show_one, tenant_option
from cli.time_options import moment_option
from nac.certificates import expiry, server_renewal
from nac.certificates import service as certificates
from nac.certificates.certificate_names import add_dns_name
from nac.certificates.errors import translate_pki_errors
from nac.certificates.holders import find_holder
from nac.certificates.issuance import IssuableProfile
from nac.kit.clock import utc_now
from nac.kit.errors import InvalidInput
from nac.kit.ids import TenantId
from nac.models import Certificate
from pki.names import San, parse_san
from pki.signing_requests import SigningRequest, read_signing_request

_SUFFIXES = {
    "key": ".key",
    "cert": ".pem",
    "chain": ".chain.pem",
    "ca": ".ca.pem",
    "p12": ".p12",
    "password": ".p12-password",
}
_PRIVATE = ("key", "p12", "password")


@click.group()
def command() -> None:
    """Manage certificates of a tenant's devices, users and RADIUS server."""


_RADSEC_SERVER = "radsec-server"
_HANDED_OUT: dict[str, IssuableProfile] = {
    "device": "eap-client-device",
    "user": "eap-client-user",
    "nas": "radsec-nas",
    _RADSEC_SERVER: "radsec-server",
}


@command.command()
@tenant_option
@click.option(
    "--profile", type=click.Choice([*_HANDED_OUT, "server"]), required=True, help="Purpose of the certificate."
)
@click.option("--name", required=True, help="Common name; for a server, its DNS name.")
@click.option(
    "--san",
    "sans",
    multiple=True,
    metavar="KIND:VALUE",
    help="Alternative name with the prefix dns:, email:, uri: or upn:; repeatable.",
)
@click.option("--endpoint", metavar="MAC", help="Endpoint that gets the certificate.")
@click.option("--user", metavar="NAME", help="User that gets the certificate.")
@moment_option("--present-from", help="Start of a server certificate (UTC, default now).")
@click.option(
    "--csr",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Certificate signing request for an existing key.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder for the files; created if missing.",
)
@click.option(
    "--p12-password-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File whose first line is the PKCS#12 password (default random).",
)
@click.option(
    "--p12-legacy", is_flag=True, help="PKCS#12 with 3DES, for macOS, iOS and old versions of Windows and Android."
)
@json_option
def issue(
    tenant: str,
    profile: str,
    name: str,
    sans: tuple[str, ...],
    endpoint: str | None,
    user: str | None,
    present_from: datetime | None,
    csr: Path | None,
    out: Path,
    p12_password_file: Path | None,
    p12_legacy: bool,
    as_json: bool,
) -> None:
    """Issue a certificate and write its files to a folder.

    \b
    NAME.pem           the certificate and the issuing authority's:
                       the full chain for most supplicants and servers
    NAME.chain.pem     only the issuing authority's certificate, for
                       software that needs the chain separately
    NAME.ca.pem        the root, which the peer must trust
    NAME.key           the key, if Admit generated it
    NAME.p12           key, certificate, chain and root (PKCS#12)
    NAME.p12-password  the generated password of the PKCS#12 file

    Admit does not keep a client's key or the key of a radsec-server, which is for your own RadSec listener.
    A server's key stays in Admit for the cell.

    With --endpoint or --user, `cert revoke --all-of-endpoint` or `--all-of-user` includes the certificate.
    """
    with translate_pki_errors():
        names = tuple(map(parse_san, sans))
        request = read_signing_request(csr.read_bytes()) if csr else None
    password = read_password_file(p12_password_file) if p12_password_file else None
    if (request or profile == "server") and (password or p12_legacy):
        raise InvalidInput("A server's key stays in Admit, so there is no PKCS#12 file.", place="--p12-password-file")
    if profile in ("server", _RADSEC_SERVER) and (endpoint or user):
        raise InvalidInput("A server certificate belongs to no endpoint or user.", place="--endpoint, --user")
    if profile != "server" and present_from:
        raise InvalidInput("Only valid for server certificates.", place="--present-from")
    if profile == _RADSEC_SERVER:
        names = add_dns_name(name, names)
    with _prepare_files(out, name) as handout:
        domain = CommandContext()
        with domain.change(tenant) as (session, tenant_id):
            if profile == "server":
                issued = _issue_server(session, domain, tenant_id, name, names, request, present_from)
            else:
                holder = find_holder(session, tenant_id=tenant_id, mac=endpoint, user_name=user)
                issued = certificates.issue_client(
                    session,
                    actor=domain.actor,
                    tenant_id=tenant_id,
                    profile=_HANDED_OUT[profile],
                    common_name=name,
                    sans=names,
                    public_key=request.public_key if request else None,
                    signing=domain.signing,
                    now=utc_now(),
                    endpoint_id=holder.endpoint_id,
                    user_id=holder.user_id,
                )
            stored = certificates.require_by_serial(session, tenant_id=tenant_id, serial=issued.serial.hex())
            row = _certificate_row(stored)
        files = handout.write(issued, password=password, legacy=p12_legacy)
    show_one(row | {"files": files} if as_json else row | files, as_json=as_json)


def _certificate_row(certificate: Certificate) -> dict[str, object]:
    return {
        "serial": certificate.serial.hex(),
        "profile": certificate.profile,
        "name": certificate.common_name,
        "status": certificate.status,
        "not_before": certificate.not_before.isoformat(),
        "not_after": certificate.not_after.isoformat(),
    }


def _issue_server(
    session: Session,
    domain: CommandContext,
    tenant_id: TenantId,
    name: str,
    sans: Sequence[San],
    request: SigningRequest | None,
    present_from: datetime | None,
) -> certificates.IssuedCertificate:
    if request or any(item.kind != "dns" for item in sans):
        raise InvalidInput(
            "A server certificate has only DNS names and a key that Admit generates.", place="--profile server"
        )
    before = server_renewal.get_presented_server(session, tenant_id=tenant_id)
    server = certificates.issue_server(
        session,
        actor=domain.actor,
        tenant_id=tenant_id,
        dns_names=[name, *(item.value for item in sans)],
        signing=domain.signing,
        now=utc_now(),
        present_from=present_from,
    )
    _tell_names_gone(before, server)
    return certificates.load_with_chain(session, server, None)


@command.command()
@click.option("--tenant", "-t", "slug", metavar="SLUG", help="The tenant (default all).")
@click.option(
    "--days",
    type=click.IntRange(1, 36525),
    default=60,
    show_default=True,
    help="List certificates that expire within this many days.",
)
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(expiry.EXPIRING_KINDS),
    multiple=True,
    help="Kind of authority or certificate; repeatable.",
)
@json_option
def expiring(slug: str | None, days: int, kinds: tuple[expiry.ExpiringKind, ...], as_json: bool) -> None:
    """List authorities and certificates that end soon and have no successor, earliest first.

    For what to do, see "Expiry warnings" in docs/reference/pki.md.
    """
    domain, now = CommandContext(), utc_now()
    rows: list[Row] = []
    for each in [slug] if slug else domain.slugs():
        with domain.tenant(each) as (session, tenant_id):
            rows += [
                {"tenant": each, **_expiring_row(item, now)}
                for item in _expiring(session, tenant_id, now, days, kinds or expiry.EXPIRING_KINDS)
            ]
    show_list(sorted(rows, key=lambda row: str(row["not_after"])), as_json=as_json)


def _expiring(
    session: Session, tenant_id: TenantId, now: datetime, days: int, kinds: Sequence[expiry.ExpiringKind]
) -> Iterator[expiry.ExpiringItem]:
    found = iterate_pages(
        lambda after: expiry.list_expiring(
            session, tenant_id=tenant_id, now=now, within_days=days, kinds=kinds, after=after
        ),
        _itself,
        first=None,
    )
    return (item for page in found for item in page)


def _tell_names_gone(before: Certificate | None, after: Certificate) -> None:
    gone = server_renewal.find_removed_names(before, after)
    if gone:
        click.echo(
            f"Note: devices that expect {' or '.join(gone.names)} reject this certificate. To go back until"
            f" they have the new name (./admit enrol profile): ./admit cert present {gone.before}",
            err=True,
        )


def _itself(item: expiry.ExpiringItem) -> expiry.ExpiringItem | None:
    return item


def _expiring_row(item: expiry.ExpiringItem, now: datetime) -> Row:
    return {
        "kind": item.kind,
        "serial": item.serial,
        "id": str(item.id),
        "profile": item.profile,
        "name": item.name,
        "not_after": item.not_after.isoformat(),
        "days_left": (item.not_after - now).days,
    }


@contextmanager
def _prepare_files(folder: Path, name: str) -> Iterator["_CertificateFiles"]:
    """Handout for a certificate. If the block fails, deletes the folders that it created."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        yield _CertificateFiles(folder, name)
    except BaseException:
        for path in missing:
            with suppress(OSError):
                path.rmdir()
        raise


class _CertificateFiles:
    """Files of one certificate. Created before the certificate, so that errors prevent its issue."""

    def __init__(self, folder: Path, name: str) -> None:
        stem = re.sub(r"[^A-Za-z0-9._@-]+", "-", name).strip("-.") or "certificate"
        self._paths = {kind: folder / f"{stem}{suffix}" for kind, suffix in _SUFFIXES.items()}
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise Refused(f"Cannot create the folder: {exc.strerror}.", place=str(folder)) from exc
        if not os.access(folder, os.W_OK):
            raise Refused("No permission to write to the folder.", place=str(folder))
        if taken := [str(path) for path in self._paths.values() if path.exists()]:
            raise Refused(f"These files exist: {', '.join(taken)}.", place=str(folder), remedy="Use another folder.")

    def write(self, issued: certificates.IssuedCertificate, *, password: str | None, legacy: bool) -> dict[str, str]:
        """Write the files and return paths by kind. Without a password, the PKCS#12 file gets a random one in its own
        file.
        """
        files = certificates.build_pem_files(issued)
        if issued.key is not None:
            if password is None:
                password = secrets.token_urlsafe(15)
                files["password"] = f"{password}\n".encode()
            files["p12"] = certificates.build_pkcs12_file(issued, password=password, legacy=legacy)
        for kind, content in files.items():
            mode = 0o600 if kind in _PRIVATE else 0o644
            with os.fdopen(os.open(self._paths[kind], os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content)
        return {kind: str(self._paths[kind]) for kind in files}
