"""Issue of a certificate with key and PKCS#12 file, for `./admit cert issue`."""

import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path

import click
from sqlalchemy.orm import Session

from cli.command_context import CommandContext
from cli.errors import Refused
from cli.files import create_file, read_password_file
from cli.output import show_one
from nac.certificates import server_renewal
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


_RADSEC_SERVER = "radsec-server"
_HANDED_OUT: dict[str, IssuableProfile] = {
    "device": "eap-client-device",
    "user": "eap-client-user",
    "nas": "radsec-nas",
    _RADSEC_SERVER: "radsec-server",
}


def issue_certificate(
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
    """Issue a certificate and print the paths of the files, as in `./admit cert issue`."""
    with translate_pki_errors():
        names = tuple(map(parse_san, sans))
        request = read_signing_request(csr.read_bytes()) if csr else None
    password = read_password_file(p12_password_file) if p12_password_file else None
    if (request or profile == "server") and (password or p12_legacy):
        raise InvalidInput(
            "Admit creates no PKCS#12 file for a server certificate or a signing request.", place="--p12-password-file"
        )
    if profile in ("server", _RADSEC_SERVER) and (endpoint or user):
        raise InvalidInput("A server certificate cannot belong to an endpoint or user.", place="--endpoint, --user")
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
            # Write the files before the transaction ends. If a file cannot be written, Admit does not issue the
            # certificate.
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
    _report_removed_names(before, server)
    return certificates.load_with_chain(session, server, None)


def _report_removed_names(before: Certificate | None, after: Certificate) -> None:
    gone = server_renewal.find_removed_names(before, after)
    if gone:
        click.echo(
            f"Note: devices that expect {' or '.join(gone.names)} reject this certificate. Configure the"
            " new name on these devices (./admit enrol profile). To use the previous certificate until then:"
            f" ./admit cert present {gone.before}",
            err=True,
        )


@contextmanager
def _prepare_files(folder: Path, name: str) -> Iterator["_CertificateFiles"]:
    """Create the folder for the files of a certificate. If the block fails, deletes the new folders."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        yield _CertificateFiles(folder, name)
    except BaseException:
        for path in missing:
            with suppress(OSError):
                path.rmdir()
        raise


class _CertificateFiles:
    """Files of one certificate.

    Admit checks the folder before it issues the certificate, so that an error prevents the issue.
    """

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
        """Write the files and return paths by kind.

        Without a password, the PKCS#12 file gets a random password, which is in a separate file.
        """
        files = certificates.build_pem_files(issued)
        if issued.key is not None:
            if password is None:
                password = secrets.token_urlsafe(15)
                files["password"] = f"{password}\n".encode()
            files["p12"] = certificates.build_pkcs12_file(issued, password=password, legacy=legacy)
        with ExitStack() as created:
            # If a file cannot be written, the stack deletes all files.
            for kind, content in files.items():
                mode = 0o600 if kind in _PRIVATE else 0o644
                created.enter_context(create_file(self._paths[kind], mode=mode)).write(content)
        return {kind: str(self._paths[kind]) for kind in files}
