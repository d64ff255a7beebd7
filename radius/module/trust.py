"""Whether the authority that signed a device's certificate is trusted, and what is known of the certificate.

A name proves nothing: anybody can make an authority that bears another's name and key identifiers, and OpenSSL in
radiusd remembers authorities that were removed since. So the signature is checked here, with the keys of those
authorities of that name that the tenant trusts now. That costs 0.1 ms at the first sight of a certificate; afterwards
it is known which authority signed it, and only that one's standing is looked up, at every authentication.
"""

from collections import OrderedDict
from collections.abc import Iterable

from cryptography import x509

from nac.packet_values import Values
from nac.replica.records import IssuerRecord, SlotRecord, TrustedAuthority
from nac.replica.store import ReplicaView
from pki.signatures import is_signed_with
from radius.module.request import Attributes, first
from radius.module.resumption import MAX_CERTIFICATES, UNREADABLE

_FIELDS = (
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

# What names the holder, the best first: many certificates have no common name.
_NAMES = (
    "TLS-Client-Cert-Common-Name",
    "TLS-Client-Cert-Subject-Alt-Name-Upn",
    "TLS-Client-Cert-Subject-Alt-Name-Email",
    "TLS-Client-Cert-Subject-Alt-Name-Dns",
    "TLS-Client-Cert-Subject-Alt-Name-Uri",
)

# Reasons that lie with the authority: whose the certificate is says its issuer.
AUTHORITY_REASONS = ("unknown-ca", "wrong-tenant-ca", "imitated-ca", "ca-revoked", "ca-expired")

# Beginning of the profiles of certificates to log in with.
CLIENT_PROFILES = "eap-client-"
_DAY_SECONDS = 86_400

# (tenant, certificate) -> id of the authority that signed it. Of one tenant, because ids are a tenant's own.
_signers: OrderedDict[tuple[int, bytes], str] = OrderedDict()
# Of those that external authorities signed: when they were told of last, epoch seconds.
_told: dict[tuple[int, bytes], int] = {}


def holder_name(certificate: Attributes) -> str:
    """Common name, else the first alternative name; "" where the certificate has neither."""
    return next((certificate[name][0] for name in _NAMES if name in certificate), "")


def issuer_detail(reason: str, certificate: Attributes, said: str = "") -> str:
    """The detail of a refusal: `said`, and the issuer's name where its authority is the reason.

    OpenSSL may have refused an authority of the chain: then the issuer of that one is named.
    """
    issuer = first(certificate, "TLS-Cert-Issuer") or first(certificate, "TLS-Client-Cert-Issuer")
    if not issuer or reason not in AUTHORITY_REASONS:
        return said
    return f"{said}; issuer: {issuer}".removeprefix("; ")


def find_issuer(certificate: Attributes, view: ReplicaView, slot: SlotRecord) -> IssuerRecord | None:
    """The authorities that bear the name of the certificate's issuer, where the tenant trusts any."""
    return view.issuer(slot.tenant, first(certificate, "TLS-Client-Cert-Issuer"))


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
    """A reason to refuse the client's certificate for its authority or status, or "" with its fields in `facts`.

    `issuer` is as `find_issuer` gives it; `der` is b"" where no session was stored; `at` is in epoch seconds.
    """
    if issuer is None:
        return "unknown-ca"
    if der:
        authority = _signer(slot.tenant, der, issuer.authorities)
    elif slot.own_authorities_only and len(issuer.authorities) == 1:
        # radiusd never held an authority but those that were made here, and this one alone has the name.
        authority = issuer.authorities[0]
    else:
        return "certificate-unread"
    if authority is None:
        return "imitated-ca"
    reason = _standing(authority, at) or _status(authority, certificate, view, slot, facts, at)
    if not reason:
        for name, attribute in _FIELDS:
            if attribute in certificate:
                facts[name] = certificate[attribute]
    return reason


def external_sighting(tenant: int, der: bytes, issuer: IssuerRecord | None, *, at: int) -> str:
    """Id of the external authority that signed the certificate, where it is time to tell of it: somebody has to ask
    about its status. Else ""."""
    key = tenant, der
    signer = _signers.get(key)
    if signer is None or issuer is None or at - _told.get(key, 0) < _DAY_SECONDS:
        return ""
    if not any(each.authority_id == signer and not each.own for each in issuer.authorities):
        return ""
    if len(_told) >= MAX_CERTIFICATES:
        # What was told long ago is told once more, a day too early.
        _told.clear()
    _told[key] = at
    return signer


def _signer(tenant: int, der: bytes, authorities: Iterable[TrustedAuthority]) -> TrustedAuthority | None:
    """Which of `authorities` signed the certificate, None for none of them."""
    key = tenant, der
    known = _signers.get(key)
    if known is not None:
        for authority in authorities:
            if authority.authority_id == known:
                return authority
        # It is trusted no more; the same key may have come back under another id.
        del _signers[key]
    try:
        certificate = x509.load_der_x509_certificate(der)
    except UNREADABLE:
        return None
    for authority in authorities:
        if is_signed_with(certificate, authority.public_key):
            _signers[key] = authority.authority_id
            if len(_signers) > MAX_CERTIFICATES:
                _signers.popitem(last=False)
            return authority
    return None


def _standing(authority: TrustedAuthority, at: int) -> str:
    if authority.revoked:
        return "ca-revoked"
    # OpenSSL looks at it in full handshakes alone.
    return "ca-expired" if authority.not_after < at else ""


def _status(
    authority: TrustedAuthority,
    certificate: Attributes,
    view: ReplicaView,
    slot: SlotRecord,
    facts: dict[str, Values],
    at: int,
) -> str:
    serial = first(certificate, "TLS-Client-Cert-Serial").lower()
    if not authority.own:
        return _external_status(authority, serial, view, slot, at)
    # Serials are an authority's own: a foreign one may use ours, by chance or on purpose.
    record = view.certificate(slot.tenant, serial)
    if record is None:
        return "certificate-unknown"
    if record.status != "valid":
        return f"certificate-{record.status}"
    if not record.profile.startswith(CLIENT_PROFILES):
        # A RadSec client's has the same usage as a device's.
        return "wrong-key-usage"
    facts["certificate.profile"] = (record.profile,)
    return ""


def _external_status(authority: TrustedAuthority, serial: str, view: ReplicaView, slot: SlotRecord, at: int) -> str:
    told = view.external_status(slot.tenant, authority.authority_id, serial)
    if told is not None and told.revoked:
        return "certificate-revoked"
    if not slot.status_required or authority.listed_until > at or (told is not None and told.until > at):
        return ""
    return "certificate-status-unknown"
