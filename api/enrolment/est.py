"""Routes of EST (RFC 7030) at `/.well-known/est/<tenant slug>/...`, with the slug as CA label (3.2.2).

A first enrolment uses a one-time secret in HTTP basic authentication. A renewal uses the old certificate in TLS.
"""

import base64
import binascii
from typing import Annotated

from cryptography import x509
from fastapi import APIRouter, Depends, Request, Response

from api.application_state import get_signing
from api.bodies import require_bounded_body
from api.enrolment.tls import get_peer_certificate
from api.enrolment_transactions import client_address, hold_secret, open_renewal, require_tenant_by_slug
from nac.certificates import service as certificates
from nac.certificates.enrolment import certificate_enrolment
from nac.certificates.enrolment.errors import RenewalRefused, SecretNeeded
from nac.certificates.errors import translate_pki_errors
from nac.certificates.profiles import require_profile
from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from pki.cms import certificates_only
from pki.est import MAX_BODY_OCTETS, encode_key_attributes, read_body
from pki.signing_requests import SigningRequest, read_signing_request

router = APIRouter(tags=["est"])
_LABEL_PREFIX = "/.well-known/est/{slug}"
# For clients without CA labels, such as strongSwan, which append the well-known path to the URL. strongSwan also needs
# base64 in one line; `openssl base64 -d` needs several lines (RFC 2045 6.8), which the other path returns.
_STRONGSWAN_PREFIX = "/{slug}/.well-known/est"

_MAX_CREDENTIAL_OCTETS = 1024
_CERTIFICATES_MEDIA_TYPE = "application/pkcs7-mime"
_CERTIFICATE_MEDIA_TYPE = "application/pkcs7-mime; smime-type=certs-only"
_ATTRIBUTES_MEDIA_TYPE = "application/csrattrs"
# The response to `csrattrs` contains the key type of this profile, because the profile of the request is not known yet.
_DEFAULT_PROFILE = "eap-client-device"

EstBody = Annotated[bytes, Depends(require_bounded_body(MAX_BODY_OCTETS))]


@router.get(_LABEL_PREFIX + "/cacerts")
@router.get(_STRONGSWAN_PREFIX + "/cacerts")
def get_ca_certificates(slug: str, request: Request) -> Response:
    """The tenant's authorities, roots first (4.1). During a rollover, the response also has the old authorities."""
    tenant_id = require_tenant_by_slug(slug)
    with session_scope(TenantScope(tenant_id)) as session:
        found = certificates.list_own_authority_certificates(session, tenant_id=tenant_id)
    return _build_response(request, certificates_only(found), _CERTIFICATES_MEDIA_TYPE)


@router.get(_LABEL_PREFIX + "/csrattrs")
@router.get(_STRONGSWAN_PREFIX + "/csrattrs")
def get_csr_attributes(slug: str, request: Request) -> Response:
    """The key type for requests (4.5)."""
    tenant_id = require_tenant_by_slug(slug)
    with session_scope(TenantScope(tenant_id)) as session:
        kind = require_profile(session, tenant_id, _DEFAULT_PROFILE).key
    return _build_response(request, encode_key_attributes(kind), _ATTRIBUTES_MEDIA_TYPE)


@router.post(_LABEL_PREFIX + "/simpleenroll")
@router.post(_STRONGSWAN_PREFIX + "/simpleenroll")
def enrol(slug: str, request: Request, body: EstBody) -> Response:
    """Enrol with a one-time secret (4.2.1). A client certificate is not sufficient."""
    tenant_id = require_tenant_by_slug(slug)
    name, secret = read_credentials(request)
    now = utc_now()
    with hold_secret(request, tenant_id=tenant_id, kind="est", name=name, secret=secret) as (session, held):
        asked = _read_signing_request(body)
        issued = certificate_enrolment.find_repeated_enrolment(
            session, secret=held.row, request=asked, now=now
        ) or certificate_enrolment.enrol(
            session,
            actor=f"est:{client_address(request)}",
            secret=held.take(now),
            request=asked,
            signing=get_signing(request),
            now=now,
        )
    return _build_response(request, certificates_only([issued.certificate]), _CERTIFICATE_MEDIA_TYPE)


@router.post(_LABEL_PREFIX + "/simplereenroll")
@router.post(_STRONGSWAN_PREFIX + "/simplereenroll")
def renew(slug: str, request: Request, body: EstBody) -> Response:
    """Renew a valid certificate of a client that holds the key of the certificate (4.2.2)."""
    tenant_id = require_tenant_by_slug(slug)
    pem = get_peer_certificate(request.scope)
    if pem is None:
        raise RenewalRefused(
            "A renewal needs the old certificate.",
            place="certificate",
            remedy="Send the old certificate as the TLS client certificate.",
        )
    shown = x509.load_pem_x509_certificate(pem.encode())
    now, actor = utc_now(), f"est:{client_address(request)}"
    with open_renewal(request, tenant_id=tenant_id, actor=actor, shown=shown) as session:
        old = certificate_enrolment.require_renewable(session, tenant_id=tenant_id, shown=shown, now=now)
        asked = _read_signing_request(body)
        issued = certificate_enrolment.find_repeated_renewal(
            session, old=old, request=asked, now=now
        ) or certificate_enrolment.renew(
            session, actor=actor, old=old, request=asked, signing=get_signing(request), now=now
        )
    return _build_response(request, certificates_only([issued.certificate]), _CERTIFICATE_MEDIA_TYPE)


def read_credentials(request: Request) -> tuple[str, str]:
    """Name and secret of HTTP basic authentication (RFC 7617). Raises SecretNeeded."""
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic" or len(encoded) > _MAX_CREDENTIAL_OCTETS:
        raise SecretNeeded
    try:
        name, colon, secret = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError) as exc:
        raise SecretNeeded from exc
    if not colon:
        raise SecretNeeded
    return name, secret


def _read_signing_request(body: bytes) -> SigningRequest:
    with translate_pki_errors():
        return read_signing_request(read_body(body))


def _build_response(request: Request, der: bytes, media_type: str) -> Response:
    in_lines = request.url.path.startswith("/.well-known/")
    body = base64.encodebytes(der) if in_lines else base64.b64encode(der)
    headers = {"Content-Transfer-Encoding": "base64", "Cache-Control": "no-store"}
    return Response(body, media_type=media_type, headers=headers)
