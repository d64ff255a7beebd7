"""Checks that a trusted authority signed a device's certificate, and looks up the certificate's status.

A name proves nothing, because anyone can create an authority with the name and key identifiers of another authority.
Besides, OpenSSL in radiusd remembers removed authorities. So this module verifies the signature with the keys of
authorities that have this name and that the tenant trusts now. The verification takes 0.1 ms for a new certificate. The
module then caches the signing authority, and each authentication looks up only the authority's state.
"""

from collections import OrderedDict
from collections.abc import Iterable

from cryptography import x509

from nac.cellformat.packet_values import Values
from nac.cellformat.replica.records import IssuerRecord, SlotRecord, TrustedAuthority
from nac.cellformat.replica.store import ReplicaView
from nac.engine.admission import refuse_certificate
from pki.signatures import is_signed_with
from radius.module.request import Attributes, first_value
from radius.module.tls_sessions import MAX_CERTIFICATES, UNREADABLE_ERRORS

_FACT_ATTRIBUTES = (
    ("certificate.san.dns", "TLS-Client-Cert-Subject-Alt-Name-Dns"),
    ("certificate.san.email", "TLS-Client-Cert-Subject-Alt-Name-Email"),
    ("certificate.san.upn", "TLS-Client-Cert-Subject-Alt-Name-Upn"),
    ("certificate.san.uri", "TLS-Client-Cert-Subject-Alt-Name-Uri"),
    ("certificate.eku", "TLS-Client-Cert-X509v3-Extended-Key-Usage-OID"),
    ("certificate.common_name", "TLS-Client-Cert-Common-Name"),
    ("certificate.subject", "TLS-Client-Cert-Subject"),
    ("certificate.issuer", "TLS-Client-Cert-Issuer"),
    ("certificate.serial", "TLS-Client-Cert-Serial"),
)

# Attributes that name the holder, in order of preference: many certificates have no common name.
_HOLDER_ATTRIBUTES = (
    "TLS-Client-Cert-Common-Name",
    "TLS-Client-Cert-Subject-Alt-Name-Upn",
    "TLS-Client-Cert-Subject-Alt-Name-Email",
    "TLS-Client-Cert-Subject-Alt-Name-Dns",
    "TLS-Client-Cert-Subject-Alt-Name-Uri",
)

# Reasons that concern the authority. For these, the details name the issuer.
AUTHORITY_REASONS = ("unknown-ca", "wrong-tenant-ca", "imitated-ca", "ca-revoked", "ca-expired")

_DAY_SECONDS = 86_400

# (tenant, certificate) -> id of the signing authority. The key contains the tenant, because each tenant has its own
# authority ids.
_signers: OrderedDict[tuple[int, bytes], str] = OrderedDict()
# Time in epoch seconds when each certificate of an external authority was last reported.
_reported_at: dict[tuple[int, bytes], int] = {}


def holder_name(certificate: Attributes) -> str:
    """Common name, otherwise the first alternative name; "" if the certificate has neither."""
    return next((certificate[name][0] for name in _HOLDER_ATTRIBUTES if name in certificate), "")


def issuer_detail(reason: str, certificate: Attributes, message: str = "") -> str:
    """Return the details for a reject, which are `message` and, if the reason concerns the authority, the issuer's
    name.

    If OpenSSL rejected an authority of the chain, the details name the issuer of that authority.
    """
    issuer = first_value(certificate, "TLS-Cert-Issuer") or first_value(certificate, "TLS-Client-Cert-Issuer")
    if not issuer or reason not in AUTHORITY_REASONS:
        return message
    return f"{message}; issuer: {issuer}".removeprefix("; ")


def find_issuer(certificate: Attributes, view: ReplicaView, slot: SlotRecord) -> IssuerRecord | None:
    """Find the authorities that have the name of the certificate's issuer and that the tenant trusts.

    Returns None if the tenant trusts no authority with this name.
    """
    return view.issuer(slot.tenant, first_value(certificate, "TLS-Client-Cert-Issuer"))


def check_certificate(
    certificate: Attributes,
    der: bytes,
    issuer: IssuerRecord | None,
    view: ReplicaView,
    slot: SlotRecord,
    facts: dict[str, Values],
    *,
    at: int,
) -> str:
    """Reason to reject the client's certificate because of its authority or status; "" if the certificate is valid.

    Stores fields of a valid certificate in `facts`. `issuer` comes from `find_issuer`. `der` is b"" if no session was
    stored. `at` is in epoch seconds.
    """
    if issuer is None:
        return "unknown-ca"
    if der:
        authority = _find_signer(slot.tenant, der, issuer.authorities)
    elif slot.own_authorities_only and len(issuer.authorities) == 1:
        # The tenant has only ever trusted authorities that Admit created, and only this authority has the name.
        authority = issuer.authorities[0]
    else:
        return "certificate-unread"
    if authority is None:
        return "imitated-ca"
    serial = first_value(certificate, "TLS-Client-Cert-Serial").lower()
    # Serial numbers are unique only per authority: an external authority may use the same number, by chance or on
    # purpose.
    own = view.certificate(slot.tenant, serial) if authority.own else None
    external = None if authority.own else view.external_status(slot.tenant, authority.authority_id, serial)
    reason = refuse_certificate(authority, own, external, now_seconds=at, is_status_required=slot.status_required)
    if not reason:
        if own is not None:
            facts["certificate.profile"] = (own.profile,)
        for name, attribute in _FACT_ATTRIBUTES:
            if attribute in certificate:
                facts[name] = certificate[attribute]
    return reason


def find_unreported_authority(tenant: int, der: bytes, issuer: IssuerRecord | None, *, at: int) -> str:
    """Id of the external authority that signed the certificate, if a report for status checks is due; otherwise ""."""
    key = tenant, der
    signer = _signers.get(key)
    if signer is None or issuer is None or at - _reported_at.get(key, 0) < _DAY_SECONDS:
        return ""
    if not any(each.authority_id == signer and not each.own for each in issuer.authorities):
        return ""
    if len(_reported_at) >= MAX_CERTIFICATES:
        # The table is full. Each certificate may be reported again, up to a day early.
        _reported_at.clear()
    _reported_at[key] = at
    return signer


def _find_signer(tenant: int, der: bytes, authorities: Iterable[TrustedAuthority]) -> TrustedAuthority | None:
    """Authority among `authorities` that signed the certificate; None if none of the authorities signed the
    certificate."""
    key = tenant, der
    known = _signers.get(key)
    if known is not None:
        for authority in authorities:
            if authority.authority_id == known:
                return authority
        # The cached authority is not trusted any more. The key of the authority may be trusted again under another
        # id.
        del _signers[key]
    try:
        certificate = x509.load_der_x509_certificate(der)
    except UNREADABLE_ERRORS:
        return None
    for authority in authorities:
        if is_signed_with(certificate, authority.public_key):
            _signers[key] = authority.authority_id
            if len(_signers) > MAX_CERTIFICATES:
                _signers.popitem(last=False)
            return authority
    return None
