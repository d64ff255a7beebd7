"""Request and response models of certificates."""

import base64
import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, cast
from uuid import UUID

from cryptography import x509
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from api.v1.inputs import Input, Text, body_example, body_examples
from nac.certificates import service as certificates
from nac.certificates.errors import translate_pki_errors
from nac.certificates.holders import describe_holder
from nac.certificates.issuance import IssuableProfile
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
        description="Certificate request (PKCS#10, PEM). Without a request, Admit generates the key and returns the "
        "key only in this response.",
    ),
]


class Certificate(BaseModel):
    serial: str = Field(description="Serial number of the certificate, in hex.")
    profile: str = Field(description="Profile of the certificate, such as eap-client-device.")
    name: str = Field(description="Common name of the certificate.")
    status: Status = Field(description="Status of the certificate.")
    not_before: datetime = Field(description="Start of the validity of the certificate.")
    not_after: datetime = Field(description="End of the validity of the certificate.")


class CertificateDetail(Certificate):
    endpoint: str | None = Field(
        examples=["00:00:5e:00:53:01"], description="MAC address of the device that holds the certificate."
    )
    user: str | None = Field(description="Name of the user who holds the certificate.")
    subject: str = Field(description="Subject of the certificate (RFC 4514).")
    names: list[str] = Field(
        examples=[["dns:laptop-1.acme.example"]],
        description="Alternative names of the certificate with their type, such as dns:laptop-1.acme.example.",
    )
    revoked_at: datetime | None = Field(description="Time when the certificate was revoked; null if not revoked.")
    revocation_reason: str = Field(
        description='Reason of the revocation (RFC 5280 5.3.1); "" if the certificate is not revoked.'
    )
    renewed_by: list[str] = Field(description="Serial numbers of certificates that renew this certificate.")
    present_from: datetime | None = Field(
        description="Time from which devices see the server certificate; null for other certificates."
    )
    authority: UUID = Field(description="Id of the authority that issued the certificate.")
    ocsp_url: str | None = Field(description="URL of the OCSP responder for the certificate.")
    crl_url: str | None = Field(description="URL of the certificate revocation list (CRL) for the certificate.")
    issuer_url: str | None = Field(description="URL of the certificate of the issuing authority.")


class IssuedCertificate(BaseModel):
    """An issued certificate. If Admit generated the key, only this response contains the key."""

    certificate: CertificateDetail = Field(description="Data of the issued certificate.")
    pem: str = Field(
        examples=["-----BEGIN CERTIFICATE-----\n...\n-----END CERTIFICATE-----\n"],
        description="Certificate with its chain, without the root (PEM).",
    )
    chain: str = Field(
        examples=["-----BEGIN CERTIFICATE-----\n...\n-----END CERTIFICATE-----\n"],
        description="Authorities between the certificate and the root (PEM).",
    )
    ca: str = Field(description="Root certificate, which the peer must trust (PEM).")
    key: str | None = Field(
        description="Private key of the certificate (PEM), if Admit created the key and you did not request PKCS#12."
    )
    pkcs12: str | None = Field(description="PKCS#12 file with key, certificate, chain and root, in base64.")
    pkcs12_password: str | None = Field(description="Password of the PKCS#12 file; null without this file.")


class Pkcs12(Input):
    password: str | None = Field(
        None, min_length=8, max_length=200, description="Password of the PKCS#12 file; null to generate a password."
    )
    legacy: bool = Field(
        False, description="Whether to encrypt the file with 3DES, for macOS, iOS and old Windows and Android."
    )


class CertificateRenewal(Input):
    model_config = body_example({"pkcs12": {"password": "four words of mine"}})

    csr: Csr | None = Field(
        None,
        examples=["-----BEGIN CERTIFICATE REQUEST-----\n...\n-----END CERTIFICATE REQUEST-----\n"],
        description="Certificate request (PKCS#10, PEM); null to generate a key.",
    )
    pkcs12: Pkcs12 | None = Field(
        None, description="Options of a PKCS#12 file for a generated key; null for PEM files."
    )


_CSR_EXAMPLE = """\
-----BEGIN CERTIFICATE REQUEST-----
MIHOMHUCAQAwEzERMA8GA1UEAwwIbGFwdG9wLTEwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAARyvFgg1ZhagRicipReW+LyrZXYjDfl2ivC37sm6ERvQ+gDlqLJrr3p
hahqTdpg26vuAa7Y+4E4j0Apre85b9feoAAwCgYIKoZIzj0EAwIDSQAwRgIhAKjq
QbW1x+TXF6tblc8xBe2vFoHpofJ70P9b99CXByomAiEAwmKXsz8FU/cqhO0E4ZaW
NrSiQ0JxquWZNru5sGfCh9g=
-----END CERTIFICATE REQUEST-----
"""


class CertificateInput(CertificateRenewal):
    model_config = body_examples(
        (
            "made-here",
            "With a generated key, as PKCS#12",
            {
                "profile": "eap-client-device",
                "name": "laptop-1",
                "names": ["dns:laptop-1.acme.example"],
                "endpoint": "00:00:5e:00:53:01",
                "pkcs12": {"password": "four words of mine"},
            },
        ),
        ("request", "For a signing request", {"name": "laptop-1", "user": "ann", "csr": _CSR_EXAMPLE}),
    )

    profile: IssuableProfile = Field(
        "eap-client-device", description="Profile of the certificate, such as eap-client-device."
    )
    name: Text = Field(
        examples=["laptop-1"], description="Common name of the certificate; for a radsec-server, the DNS name."
    )
    names: Sans = Field(
        default=[],
        examples=[["dns:laptop-1.acme.example"]],
        description="Additional names of the certificate with their type, such as dns:laptop-1.acme.example.",
    )
    endpoint: str | None = Field(
        None,
        max_length=40,
        examples=["00:00:5e:00:53:01"],
        description=(
            "MAC address of the device that holds the certificate. A revocation of all certificates of this "
            "device includes the certificate."
        ),
    )
    user: str | None = Field(
        None,
        max_length=256,
        description=(
            "Name of the user who holds the certificate. A revocation of all certificates of this user includes "
            "the certificate."
        ),
    )


def parse_signing_request(text: str | None) -> SigningRequest | None:
    """Parse a signing request. Raises CertificateRefused if the request is invalid."""
    with translate_pki_errors():
        return None if text is None else read_signing_request(text.encode())


def parse_alternative_names(texts: Sequence[str]) -> tuple[San, ...]:
    with translate_pki_errors():
        return tuple(map(parse_san, texts))


def build_certificate(row: CertificateRow) -> Certificate:
    return Certificate(
        serial=row.serial.hex(),
        profile=row.profile,
        name=row.common_name,
        status=cast(Any, row.status),
        not_before=row.not_before,
        not_after=row.not_after,
    )


def build_certificate_detail(session: Session, row: CertificateRow) -> CertificateDetail:
    loaded = None if row.certificate_der is None else x509.load_der_x509_certificate(row.certificate_der)
    locations = None if loaded is None else read_locations(loaded)
    holder = describe_holder(session, row)
    return CertificateDetail(
        **build_certificate(row).model_dump(),
        endpoint=holder["endpoint"],
        user=holder["user"],
        subject=row.subject,
        names=[] if loaded is None else [str(item) for item in read_sans(loaded)],
        revoked_at=row.revoked_at,
        revocation_reason=row.revocation_reason,
        renewed_by=[each.serial.hex() for each in certificates.list_renewals(session, row)],
        present_from=row.present_from,
        authority=row.authority_id,
        ocsp_url=locations.ocsp if locations else None,
        crl_url=locations.crl if locations else None,
        issuer_url=locations.certificate if locations else None,
    )


def build_issued_certificate(
    session: Session, row: CertificateRow, issued: JustIssued, options: Pkcs12 | None
) -> IssuedCertificate:
    files = {name: content.decode() for name, content in certificates.build_pem_files(issued).items()}
    bundle = password = None
    if options is not None and issued.key is not None:
        password = options.password or secrets.token_urlsafe(15)
        bundle = certificates.build_pkcs12_file(issued, password=password, legacy=options.legacy)
    return IssuedCertificate(
        certificate=build_certificate_detail(session, row),
        pem=files["cert"],
        chain=files["chain"],
        ca=files["ca"],
        key=files.get("key") if bundle is None else None,
        pkcs12=None if bundle is None else base64.b64encode(bundle).decode(),
        pkcs12_password=password,
    )
