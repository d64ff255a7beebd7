"""Certificate profiles: functions to check a profile in JSON form, and to convert it to a `CertificateProfile`.

The example below shows a profile. The fields `backdate_minutes`, `path_length`, `allowed_names`, `required_names` and
`ocsp_no_check` are optional. The limits for overrides of a tenant (`validity_days_most`, `keys`) are also optional.

    {"authority": false, "key": "ecdsa-p256", "validity_days": 365, "backdate_minutes": 60,
     "key_usage": ["digital-signature"], "extended_key_usage": ["client-auth"],
     "allowed_names": ["dns", "uri"], "required_names": [],
     "validity_days_most": 1826, "keys": ["ecdsa-p256", "rsa-2048"]}

A tenant can override two fields: {"validity_days": 90, "key": "rsa-2048"}. Each of these fields may be missing.
`adjust_profile` applies the overrides to a profile.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar, cast

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from pki.errors import ProfileErrors
from pki.keys import KEY_KINDS, KeyKind
from pki.names import SAN_KINDS, SanKind

_T = TypeVar("_T")

# Key usages (RFC 5280 4.2.1.3) for TLS and authorities. key-encipherment is for RSA key exchange in TLS 1.2.
KEY_USAGES = ("digital-signature", "key-encipherment", "key-cert-sign", "crl-sign")
EXTENDED_KEY_USAGES = {
    "server-auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "client-auth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "ocsp-signing": ExtendedKeyUsageOID.OCSP_SIGNING,
    # RFC 4334 2. Some supplicants require it in a RADIUS server's certificate.
    "eap-over-lan": x509.ObjectIdentifier("1.3.6.1.5.5.7.3.14"),
    # id-kp-cmcRA (RFC 6402 2.10): the owner of the key may handle enrolments for the authority.
    "registration-authority": x509.ObjectIdentifier("1.3.6.1.5.5.7.3.28"),
}
_MAX_DAYS = 36525
_MAX_BACKDATE_MINUTES = 1440


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateProfile:
    name: str
    authority: bool
    # Maximum number of authorities below this authority in a chain (RFC 5280 4.2.1.9); None for no limit.
    path_length: int | None
    key: KeyKind
    validity: timedelta
    # Time from the start of the validity to the issue of the certificate, because clocks of devices may be late.
    backdate: timedelta
    key_usage: frozenset[str]
    extended_key_usage: tuple[str, ...]
    allowed_names: frozenset[SanKind]
    required_names: frozenset[SanKind]
    # Whether clients must not check the status of the certificate, because it signs OCSP responses (RFC 6960
    # 4.2.2.2.1).
    ocsp_no_check: bool
    # Limits for overrides of a tenant: maximum validity, and allowed kinds of keys.
    validity_most: timedelta
    keys: frozenset[KeyKind]


class _ProfileReader:
    """Reads the fields of a profile one by one, and collects the mistakes."""

    def __init__(self, name: str, written: Mapping[str, Any], mistakes: list[str]) -> None:
        self._name = name
        self._left = dict(written)
        self._mistakes = mistakes

    def refuse(self, field: str, why: str) -> None:
        self._mistakes.append(f"{self._name}.{field}: {why}")

    def _take(self, field: str, default: _T) -> _T:
        """Return the value of the field, or `default` if the field is missing.

        If the value has another type than `default`, records a mistake and returns `default`.
        """
        value = self._left.pop(field, default)
        # isinstance accepts a bool as an int, but a profile must not.
        if type(value) is not type(default):
            self.refuse(field, f"{value!r} must be a {type(default).__name__}")
            return default
        return value

    def flag(self, field: str) -> bool:
        return self._take(field, False)

    def number(self, field: str, low: int, high: int, *, default: int) -> int:
        value = self._take(field, default)
        if not low <= value <= high:
            self.refuse(field, f"{value} must be from {low} to {high}")
        return value

    def required_number(self, field: str, low: int, high: int) -> int:
        if field not in self._left:
            self.refuse(field, "is missing")
        return self.number(field, low, high, default=low)

    def optional_number(self, field: str, low: int, high: int) -> int | None:
        return None if self._left.get(field) is None else self.number(field, low, high, default=low)

    def choice(self, field: str, choices: tuple[str, ...], *, default: str) -> str:
        value = self._take(field, default)
        if value not in choices:
            self.refuse(field, f"{value!r} must be one of {', '.join(choices)}")
        return value

    def choices(self, field: str, choices: tuple[str, ...]) -> tuple[str, ...]:
        empty: list[Any] = []
        values = self._take(field, empty)
        for value in values:
            if value not in choices:
                self.refuse(field, f"{value!r} must be one of {', '.join(choices)}")
        return tuple(value for value in values if value in choices)

    def finish(self) -> None:
        for field in self._left:
            self.refuse(field, "unknown field")


def parse_profiles(written: Mapping[str, Mapping[str, Any]]) -> dict[str, CertificateProfile]:
    """Check the profiles, and return them by name. Raises ProfileErrors with all mistakes of all profiles."""
    mistakes: list[str] = []
    profiles = {name: _parse_profile(name, fields, mistakes) for name, fields in written.items()}
    if mistakes:
        raise ProfileErrors(mistakes)
    return profiles


def _parse_profile(name: str, written: Mapping[str, Any], mistakes: list[str]) -> CertificateProfile:
    reader = _ProfileReader(name, written, mistakes)
    key = cast(KeyKind, reader.choice("key", KEY_KINDS, default="ecdsa-p256"))
    days = reader.required_number("validity_days", 1, _MAX_DAYS)
    profile = CertificateProfile(
        name=name,
        authority=reader.flag("authority"),
        path_length=reader.optional_number("path_length", 0, 5),
        key=key,
        validity=timedelta(days=days),
        backdate=timedelta(minutes=reader.number("backdate_minutes", 0, _MAX_BACKDATE_MINUTES, default=60)),
        key_usage=frozenset(reader.choices("key_usage", KEY_USAGES)),
        extended_key_usage=reader.choices("extended_key_usage", tuple(EXTENDED_KEY_USAGES)),
        allowed_names=cast(frozenset[SanKind], frozenset(reader.choices("allowed_names", SAN_KINDS))),
        required_names=cast(frozenset[SanKind], frozenset(reader.choices("required_names", SAN_KINDS))),
        ocsp_no_check=reader.flag("ocsp_no_check"),
        validity_most=timedelta(days=reader.number("validity_days_most", 1, _MAX_DAYS, default=days)),
        keys=cast(frozenset[KeyKind], frozenset(reader.choices("keys", KEY_KINDS))) | {key},
    )
    _check_consistency(profile, reader)
    reader.finish()
    return profile


def adjust_profile(profile: CertificateProfile, written: Mapping[str, Any]) -> CertificateProfile:
    """Apply a tenant's overrides of validity and key to a profile. Raises ProfileErrors with all mistakes."""
    mistakes: list[str] = []
    reader = _ProfileReader(profile.name, written, mistakes)
    days = reader.number("validity_days", 1, profile.validity_most.days, default=profile.validity.days)
    kinds = tuple(kind for kind in KEY_KINDS if kind in profile.keys)
    key = cast(KeyKind, reader.choice("key", kinds, default=profile.key))
    reader.finish()
    if mistakes:
        raise ProfileErrors(mistakes)
    return replace(profile, validity=timedelta(days=days), key=key)


def _check_consistency(profile: CertificateProfile, reader: _ProfileReader) -> None:
    signs_certificates = "key-cert-sign" in profile.key_usage
    if profile.authority and not signs_certificates:
        reader.refuse("key_usage", "an authority needs key-cert-sign")
    if not profile.authority and signs_certificates:
        reader.refuse("key_usage", "key-cert-sign is only for authorities (RFC 5280 4.2.1.9)")
    if not profile.authority and profile.path_length is not None:
        reader.refuse("path_length", "is only for authorities (RFC 5280 4.2.1.9)")
    if not profile.authority and not profile.extended_key_usage:
        reader.refuse("extended_key_usage", "at least one is needed; without one the certificate allows every use")
    if profile.ocsp_no_check and profile.extended_key_usage != ("ocsp-signing",):
        reader.refuse("ocsp_no_check", "is only for signers of OCSP responses (RFC 6960 4.2.2.2.1)")
    if profile.validity > profile.validity_most:
        reader.refuse("validity_days_most", f"must be at least the {profile.validity.days} days of validity_days")
    if not profile.key_usage:
        reader.refuse("key_usage", "at least one is needed")
    if missing := profile.required_names - profile.allowed_names:
        reader.refuse("required_names", f"{', '.join(sorted(missing))} must be among allowed_names")


# Windows, Android and Apple require serverAuth and a DNS name as alternative name in a RADIUS server's certificate.
# Apple also allows at most 825 days of validity.
_ANY_KEY = list(KEY_KINDS)
BUILT_IN_PROFILES: Mapping[str, Mapping[str, Any]] = {
    "root": {
        "authority": True,
        "key": "ecdsa-p256",
        "validity_days": 7305,
        "key_usage": ["key-cert-sign", "crl-sign"],
        "validity_days_most": 10957,
        "keys": _ANY_KEY,
    },
    "issuing": {
        "authority": True,
        "path_length": 0,
        "key": "ecdsa-p256",
        "validity_days": 3652,
        "key_usage": ["digital-signature", "key-cert-sign", "crl-sign"],
        "validity_days_most": 5478,
        "keys": _ANY_KEY,
    },
    "eap-server": {
        "key": "ecdsa-p256",
        "validity_days": 820,
        "key_usage": ["digital-signature"],
        "extended_key_usage": ["server-auth"],
        "allowed_names": ["dns"],
        "required_names": ["dns"],
        "validity_days_most": 824,
        "keys": _ANY_KEY,
    },
    "eap-client-user": {
        "key": "ecdsa-p256",
        "validity_days": 365,
        "key_usage": ["digital-signature"],
        "extended_key_usage": ["client-auth"],
        "allowed_names": ["email", "upn", "uri"],
        "validity_days_most": 1826,
        "keys": _ANY_KEY,
    },
    "eap-client-device": {
        "key": "ecdsa-p256",
        "validity_days": 730,
        "key_usage": ["digital-signature"],
        "extended_key_usage": ["client-auth"],
        "allowed_names": ["dns", "uri"],
        "validity_days_most": 1826,
        "keys": _ANY_KEY,
    },
    # Only for self-tests of the tenant. The certificate is valid only for the duration of a self-test.
    "eap-client-self-test": {
        "key": "ecdsa-p256",
        "validity_days": 1,
        "key_usage": ["digital-signature"],
        "extended_key_usage": ["client-auth"],
        "allowed_names": ["dns"],
    },
    # RFC 6614 2.3: the client compares the server's name with the alternative names.
    "radsec-server": {
        "key": "ecdsa-p256",
        "validity_days": 820,
        "key_usage": ["digital-signature"],
        "extended_key_usage": ["server-auth"],
        "allowed_names": ["dns"],
        "required_names": ["dns"],
        "validity_days_most": 824,
        "keys": _ANY_KEY,
    },
    "radsec-nas": {
        "key": "ecdsa-p256",
        "validity_days": 820,
        "key_usage": ["digital-signature"],
        "extended_key_usage": ["client-auth"],
        "allowed_names": ["dns", "uri"],
        "validity_days_most": 1826,
        "keys": _ANY_KEY,
    },
    # Clients do not check the status of an OCSP signer's certificate (RFC 6960 4.2.2.2.1). So it is valid for a short
    # time, and Admit renews it after half of this time.
    "ocsp-signer": {
        "key": "ecdsa-p256",
        "validity_days": 14,
        "key_usage": ["digital-signature"],
        "extended_key_usage": ["ocsp-signing"],
        "ocsp_no_check": True,
        "validity_days_most": 90,
        "keys": _ANY_KEY,
    },
    # Clients encrypt requests with this key (RFC 8894 3.1), so the key must be RSA.
    "scep-ra": {
        "key": "rsa-2048",
        "validity_days": 820,
        "key_usage": ["digital-signature", "key-encipherment"],
        "extended_key_usage": ["registration-authority"],
        "validity_days_most": 1826,
        "keys": ["rsa-2048", "rsa-3072"],
    },
}
PROFILES = parse_profiles(BUILT_IN_PROFILES)
