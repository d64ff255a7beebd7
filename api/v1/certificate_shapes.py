"""Certificates as they are asked for and shown."""

import base64
import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, cast
from uuid import UUID

from cryptography import x509
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from api.v1.inputs import Input, Text
from nac.certificates import service as certificates
from nac.certificates.errors import refusals
from nac.certificates.holders import describe_holder
from nac.certificates.issuing import HandedOutProfile
from nac.certificates.service import IssuedCertificate as JustIssued
from nac.models import Certificate as CertificateRow
from pki.issuance import read_locations
from pki.names import San, parse_san, read_sans
from pki.signing_requests import SigningRequest, read_signing_request

Status = Literal["intended", "abandoned", "valid", "suspended", "revoked"]
_REQUEST_CHARACTERS = 48 * 1024
SanText = Annotated[str, Field(max_length=1_100, examples=["dns:laptop-1.acme.example"])]
Sans = Annotated[list[SanText], Field(max_length=20)]
Csr = Annotated[
    str,
    Field(
        max_length=_REQUEST_CHARACTERS,
        description="PKCS#10 in PEM: its key is certified. Without one the key is made here, and in this answer alone.",
    ),
]


class Certificate(BaseModel):
    serial: str = Field(description="Serial number, in hex.")
    profile: str = Field(description="What it is for.")
    name: str = Field(description="Common name.")
    status: Status = Field(description="What state it is in.")
    not_before: datetime = Field(description="From when it is valid.")
    not_after: datetime = Field(description="Until when it is valid.")


class CertificateDetail(Certificate):
    endpoint: str | None = Field(description="MAC address of the device that it was issued to.")
    user: str | None = Field(description="Name of the user that it was issued to.")
    subject: str = Field(description="Subject (RFC 4514).")
    names: list[str] = Field(
        description="Names in the certificate, each with its kind, such as dns:laptop-1.acme.example."
    )
    revoked_at: datetime | None = Field(description="When it was revoked.")
    revocation_reason: str = Field(description='Why it was revoked (RFC 5280 5.3.1); "" where it was not.')
    renewed_by: list[str] = Field(description="Serial numbers of what was given to whoever showed this one.")
    present_from: datetime | None = Field(description="Of a server's: when devices are first shown it.")
    authority: UUID = Field(description="Id of the authority that issued it.")
    ocsp_url: str | None = Field(description="Where status is asked for by OCSP.")
    crl_url: str | None = Field(description="Where the list of revoked certificates is.")
    issuer_url: str | None = Field(description="Where the certificate says that its issuer's certificate is found.")


class IssuedCertificate(BaseModel):
    """The key is nowhere else: this is the only time it is seen."""

    certificate: CertificateDetail = Field(description="The certificate.")
    pem: str = Field(description="The certificate and, after it, the authorities below the root (PEM).")
    chain: str = Field(description="The authorities between the certificate and the root (PEM).")
    ca: str = Field(description="The root, which the other side must trust (PEM).")
    key: str | None = Field(description="The private key (PEM), where it was made here and no PKCS#12 was asked for.")
    pkcs12: str | None = Field(description="Key, certificate, chain and root in one, in base64.")
    pkcs12_password: str | None = Field(description="The password of the PKCS#12; null where there is none.")


class Pkcs12(Input):
    password: str | None = Field(
        None, min_length=8, max_length=200, description="Protects the file; null: one is made up."
    )
    legacy: bool = Field(
        False, description="Encrypted so that macOS, iOS and old Windows and Android can read it (3DES)."
    )


class CertificateRenewal(Input):
    csr: Csr | None = Field(None, description="Certificate request (PKCS#10, PEM); null: the key is made here.")
    pkcs12: Pkcs12 | None = Field(None, description="As PKCS#12 in place of PEM, where the key is made here.")


class CertificateInput(CertificateRenewal):
    profile: HandedOutProfile = Field("eap-client-device", description="What it is for.")
    name: Text = Field(examples=["laptop-1"], description="Common name; of a radsec-server its DNS name.")
    names: Sans = Field(
        default=[],
        examples=[["dns:laptop-1.acme.example"]],
        description="Further names, each with its kind, such as dns:laptop-1.acme.example.",
    )
    endpoint: str | None = Field(
        None, max_length=40, description="MAC address of the device that it is issued to: it is revoked with that."
    )
    user: str | None = Field(
        None, max_length=256, description="Name of the user that it is issued to: it is revoked with that."
    )


def signing_request(text: str | None) -> SigningRequest | None:
    """Raises CertificateRefused."""
    with refusals():
        return None if text is None else read_signing_request(text.encode())


def alternative_names(texts: Sequence[str]) -> tuple[San, ...]:
    with refusals():
        return tuple(map(parse_san, texts))


def in_short(row: CertificateRow) -> Certificate:
    return Certificate(
        serial=row.serial.hex(),
        profile=row.profile,
        name=row.common_name,
        status=cast(Any, row.status),
        not_before=row.not_before,
        not_after=row.not_after,
    )


def in_full(session: Session, row: CertificateRow) -> CertificateDetail:
    loaded = None if row.certificate_der is None else x509.load_der_x509_certificate(row.certificate_der)
    told = None if loaded is None else read_locations(loaded)
    holder = describe_holder(session, row)
    return CertificateDetail(
        **in_short(row).model_dump(),
        endpoint=holder["endpoint"],
        user=holder["user"],
        subject=row.subject,
        names=[] if loaded is None else [str(item) for item in read_sans(loaded)],
        revoked_at=row.revoked_at,
        revocation_reason=row.revocation_reason,
        renewed_by=[each.serial.hex() for each in certificates.renewals_of(session, row)],
        present_from=row.present_from,
        authority=row.authority_id,
        ocsp_url=told.ocsp if told else None,
        crl_url=told.crl if told else None,
        issuer_url=told.certificate if told else None,
    )


def handed_out(session: Session, row: CertificateRow, issued: JustIssued, wanted: Pkcs12 | None) -> IssuedCertificate:
    files = {name: content.decode() for name, content in certificates.pem_files(issued).items()}
    bundle = password = None
    if wanted is not None and issued.key is not None:
        password = wanted.password or secrets.token_urlsafe(15)
        bundle = certificates.pkcs12_file(issued, password=password, legacy=wanted.legacy)
    return IssuedCertificate(
        certificate=in_full(session, row),
        pem=files["cert"],
        chain=files["chain"],
        ca=files["ca"],
        key=files.get("key") if bundle is None else None,
        pkcs12=None if bundle is None else base64.b64encode(bundle).decode(),
        pkcs12_password=password,
    )
