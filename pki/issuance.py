"""Issues certificates (RFC 5280) from a profile, a public key and names. Checks all values before the signature."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.x509.oid import AuthorityInformationAccessOID

from pki.errors import IssuerNotAllowed, NameNotAllowed, ValidityNotAllowed
from pki.keys import PrivateKey, is_same_public_key, require_acceptable, signature_hash
from pki.names import San, build_general_names
from pki.profiles import EXTENDED_KEY_USAGES, CertificateProfile

_MAX_SERIAL_OCTETS = 20
_SECOND = timedelta(seconds=1)
_TLS_USAGES = frozenset(("client-auth", "server-auth"))


@dataclass(frozen=True, slots=True)
class Issuer:
    """An authority's certificate and private key."""

    certificate: x509.Certificate
    key: PrivateKey = field(repr=False)

    def __post_init__(self) -> None:
        if not is_same_public_key(self.certificate.public_key(), self.key.public_key()):
            name = self.certificate.subject.rfc4514_string()
            raise IssuerNotAllowed(f"The key does not belong to the certificate {name}.")


@dataclass(frozen=True, slots=True)
class IssuerLocations:
    """URLs of an issuer's certificate, OCSP responder and CRL (RFC 5280 4.2.1.13, 4.2.2.1); "" for a missing URL."""

    certificate: str
    ocsp: str
    crl: str


@dataclass(frozen=True, slots=True)
class Validity:
    """Validity in whole seconds, UTC. The first and the last second are included (RFC 5280 4.1.2.5)."""

    not_before: datetime
    not_after: datetime


def plan_validity(
    profile: CertificateProfile,
    *,
    issuer: x509.Certificate | None,
    now: datetime,
    not_before: datetime | None = None,
    not_after: datetime | None = None,
) -> Validity:
    """Return the requested validity of a certificate; by default, the validity in the profile.

    A certificate cannot be valid after its issuer. The function shortens a default validity, but rejects a requested
    `not_after`, because the requester would rely on the requested time.
    """
    begin = _whole_second(not_before or now - profile.backdate, "not_before")
    # The validity includes the last second (RFC 5280), so not_after is one second before the end of the period.
    end = _whole_second(not_after or (not_before or now) + profile.validity - _SECOND, "not_after")
    if issuer is not None and end > issuer.not_valid_after_utc:
        if not_after is not None:
            last = issuer.not_valid_after_utc
            raise ValidityNotAllowed(f"not_after: {end} is later than the issuer's end, {last}.")
        end = issuer.not_valid_after_utc
    if end <= begin:
        raise ValidityNotAllowed(f"The validity ends ({end}) before it begins ({begin}).")
    if end - begin > profile.validity + profile.backdate:
        raise ValidityNotAllowed(f"not_after: profile {profile.name} allows at most {profile.validity.days} days.")
    return Validity(begin, end)


def _whole_second(moment: datetime, what: str) -> datetime:
    if moment.tzinfo is None:
        raise ValidityNotAllowed(f"{what}: the time has no time zone.")
    return moment.astimezone(UTC).replace(microsecond=0)


def issue(
    profile: CertificateProfile,
    *,
    public_key: PublicKeyTypes,
    subject: x509.Name,
    sans: Iterable[San] = (),
    issuer: Issuer,
    now: datetime,
    serial: int,
    locations: IssuerLocations | None = None,
    not_before: datetime | None = None,
    not_after: datetime | None = None,
) -> x509.Certificate:
    """Issue a certificate with the validity of `plan_validity`.

    `locations` are URLs of the issuer. Without `locations`, the certificate contains no URLs for CRL and OCSP. Raises
    errors of pki.errors for values that are not allowed.
    """
    _check_issuer(profile, issuer.certificate, now)
    validity = plan_validity(profile, issuer=issuer.certificate, now=now, not_before=not_before, not_after=not_after)
    builder = _certificate_builder(profile, public_key, subject, sans, validity, serial)
    identifier = _key_identifier(issuer.certificate)
    builder = builder.issuer_name(issuer.certificate.subject).add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False
    )
    if locations is not None:
        builder = add_locations(builder, locations, of_itself=not profile.ocsp_no_check)
    certificate = builder.sign(issuer.key, signature_hash(issuer.key))
    _check_signature(certificate, issuer.certificate)
    return certificate


def add_locations(
    builder: x509.CertificateBuilder, locations: IssuerLocations, *, of_itself: bool
) -> x509.CertificateBuilder:
    """Add the issuer's URLs to a certificate. `of_itself` also adds the URLs of the OCSP responder and the CRL.

    Do not set `of_itself` for the certificate of an OCSP signer, because clients do not check its status (RFC 6960
    4.2.2.2.1).
    """
    access = [(AuthorityInformationAccessOID.CA_ISSUERS, locations.certificate)]
    if of_itself:
        access.append((AuthorityInformationAccessOID.OCSP, locations.ocsp))
        point = x509.DistributionPoint([x509.UniformResourceIdentifier(locations.crl)], None, None, None)
        builder = builder.add_extension(x509.CRLDistributionPoints([point]), critical=False)
    descriptions = [
        x509.AccessDescription(method, x509.UniformResourceIdentifier(location)) for method, location in access
    ]
    return builder.add_extension(x509.AuthorityInformationAccess(descriptions), critical=False)


def read_locations(certificate: x509.Certificate) -> IssuerLocations | None:
    """Return the issuer's URLs in a certificate, or None if the certificate has none of these URLs."""
    urls: dict[str, str] = {}
    for extension in certificate.extensions:
        match extension.value:
            case x509.AuthorityInformationAccess() as access:
                urls |= {item.access_method.dotted_string: _first_uri([item.access_location]) for item in access}
            case x509.CRLDistributionPoints() as points:
                urls["crl"] = _first_uri(name for point in points for name in point.full_name or ())
            case _:
                continue
    if not urls:
        return None
    methods = AuthorityInformationAccessOID.CA_ISSUERS, AuthorityInformationAccessOID.OCSP
    issuer, ocsp = (urls.get(method.dotted_string, "") for method in methods)
    return IssuerLocations(certificate=issuer, ocsp=ocsp, crl=urls.get("crl", ""))


def _first_uri(names: Iterable[x509.GeneralName]) -> str:
    return next((name.value for name in names if isinstance(name, x509.UniformResourceIdentifier)), "")


def issue_root(
    profile: CertificateProfile, *, key: PrivateKey, subject: x509.Name, now: datetime, serial: int
) -> x509.Certificate:
    """Issue the self-signed certificate of a root authority."""
    if not profile.authority:
        raise IssuerNotAllowed(f"Profile {profile.name} is not for authorities and cannot be self-signed.")
    validity = plan_validity(profile, issuer=None, now=now)
    builder = _certificate_builder(profile, key.public_key(), subject, (), validity, serial).issuer_name(subject)
    certificate = builder.sign(key, signature_hash(key))
    _check_signature(certificate, certificate)
    return certificate


def _certificate_builder(
    profile: CertificateProfile,
    public_key: PublicKeyTypes,
    subject: x509.Name,
    sans: Iterable[San],
    validity: Validity,
    serial: int,
) -> x509.CertificateBuilder:
    key = require_acceptable(public_key)
    if not 0 < serial < 1 << (8 * _MAX_SERIAL_OCTETS - 1):
        raise ValueError("a serial number must be positive and at most 20 octets (RFC 5280 4.1.2.2)")
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key)
        .serial_number(serial)
        .not_valid_before(validity.not_before)
        .not_valid_after(validity.not_after)
        .add_extension(x509.BasicConstraints(ca=profile.authority, path_length=profile.path_length), critical=True)
        .add_extension(_key_usage(profile, key), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )
    if profile.extended_key_usage:
        usages = [EXTENDED_KEY_USAGES[usage] for usage in profile.extended_key_usage]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    if profile.ocsp_no_check:
        builder = builder.add_extension(x509.OCSPNoCheck(), critical=False)
    names = build_general_names(check_sans(profile, sans))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder


def check_sans(profile: CertificateProfile, sans: Iterable[San]) -> tuple[San, ...]:
    """Return the alternative names, if the profile allows all of them and no required name is missing."""
    checked = tuple(sans)
    for item in checked:
        if item.kind not in profile.allowed_names:
            allowed = ", ".join(sorted(profile.allowed_names)) or "none"
            raise NameNotAllowed(f"alternative name {item}: profile {profile.name} allows these kinds: {allowed}.")
    if missing := profile.required_names - {item.kind for item in checked}:
        raise NameNotAllowed(f"Profile {profile.name} needs an alternative name of kind {', '.join(sorted(missing))}.")
    return checked


def _key_usage(profile: CertificateProfile, key: PublicKeyTypes) -> x509.KeyUsage:
    """Return the key usage. For RSA keys in TLS, add keyEncipherment, which SCEP responses (RFC 8894 3.2) and some
    supplicants require."""
    is_tls = bool(_TLS_USAGES.intersection(profile.extended_key_usage))
    return x509.KeyUsage(
        digital_signature="digital-signature" in profile.key_usage,
        content_commitment=False,
        key_encipherment="key-encipherment" in profile.key_usage or (is_tls and isinstance(key, rsa.RSAPublicKey)),
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign="key-cert-sign" in profile.key_usage,
        crl_sign="crl-sign" in profile.key_usage,
        encipher_only=False,
        decipher_only=False,
    )


def _check_issuer(profile: CertificateProfile, issuer: x509.Certificate, now: datetime) -> None:
    name = issuer.subject.rfc4514_string()
    try:
        constraints = issuer.extensions.get_extension_for_class(x509.BasicConstraints).value
        usage = issuer.extensions.get_extension_for_class(x509.KeyUsage).value
    except x509.ExtensionNotFound as exc:
        raise IssuerNotAllowed(f"{name} is no authority: it lacks {exc.oid._name}.") from exc
    if not constraints.ca or not usage.key_cert_sign:
        raise IssuerNotAllowed(f"{name} is no authority that may sign certificates.")
    if profile.authority and constraints.path_length is not None:
        if constraints.path_length == 0:
            raise IssuerNotAllowed(
                f"{name} has path length 0: no authority may follow below {name} (RFC 5280 4.2.1.9)."
            )
        if profile.path_length is None or profile.path_length >= constraints.path_length:
            limit = constraints.path_length
            raise IssuerNotAllowed(f"The new authority's path length must be below {limit}, the path length of {name}.")
    if not issuer.not_valid_before_utc <= now <= issuer.not_valid_after_utc:
        raise IssuerNotAllowed(f"{name} is not valid now (until {issuer.not_valid_after_utc:%Y-%m-%d}).")


def _key_identifier(certificate: x509.Certificate) -> x509.SubjectKeyIdentifier:
    return x509.SubjectKeyIdentifier(key_identifier(certificate))


def key_identifier(certificate: x509.Certificate) -> bytes:
    """Subject key identifier (RFC 5280 4.2.1.2). If an old authority has none, computes it by the first method."""
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    except x509.ExtensionNotFound:
        return x509.SubjectKeyIdentifier.from_public_key(certificate.public_key()).digest


def _check_signature(certificate: x509.Certificate, issuer: x509.Certificate) -> None:
    """Verify the new signature. Devices would reject a faulty signature, and it may reveal an ECDSA private key."""
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature) as exc:
        raise IssuerNotAllowed(
            "The signature of the new certificate is invalid, so Admit discarded the certificate."
        ) from exc
