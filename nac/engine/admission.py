"""The admission ladder: the checks before and after a policy, their order, and the reasons of a reject.

The cell, re-decisions, simulations and self-tests all call `find_refusal`. Each caller collects the data about a
request (`AdmissionFacts`) from its own source. The checks, in this order:

1. the tenant is active
2. the login is valid: password, EAP conversation, certificate (`refuse_certificate`)
3. the tenant accepts the TLS version
4. the tenant offers the method
5. for a password method: the tenant's own user exists, is enabled and has not expired
6. the NAS belongs to a site, and the site has a published policy
7. the endpoint is not blocked
8. the policy permits the device (`nac.engine.decide`)
9. if the reply needs a Wi-Fi passphrase, the passphrase is stored (`require_passphrase`)

The first check that fails rejects the request. So no rule of a policy can admit a device that an earlier check
rejects. Only the cell counts failed logins. The cell applies the limits on failed logins after check 1.
"""

from collections.abc import Collection
from typing import Literal, NamedTuple, Protocol, Self, TypeVar

from nac.engine.vendors import AttributeTemplate

_TUNNELLED_METHODS = ("eap-ttls-pap", "eap-ttls-mschapv2", "peap-mschapv2")
# Methods in which a user sends a password.
USER_METHODS = frozenset(("pap", "chap", "mschapv2", *_TUNNELLED_METHODS))
# The methods "eap-ttls" and "peap" mean that the inner method is unknown. No tenant offers these two methods.
TLS_METHODS = frozenset(("eap-tls", "eap-ttls", "peap", *_TUNNELLED_METHODS))
TLS_VERSIONS = ("1.2", "1.3")
# Prefix of certificate profiles for logins. A check of the key usage is not enough, because certificates of RadSec
# clients have the same usage.
_CLIENT_PROFILES = "eap-client-"

# `expired`: the approval of the endpoint has ended. `unapproved`: a discovered, ignored or unknown device.
Standing = Literal["approved", "expired", "blocked", "unapproved"]


class Refusal(NamedTuple):
    """A reject: a reason code of nac.engine.reasons, and details for the help desk."""

    reason: str
    detail: str = ""


class TenantTerms(Protocol):
    """Status of a tenant, and the methods and TLS versions that it accepts."""

    @property
    def status(self) -> str: ...
    @property
    def methods(self) -> Collection[str]: ...
    @property
    def tls_versions(self) -> Collection[str]: ...


class AdmissionPlace(Protocol):
    """Site and policy of the NAS that sent a request. The checks only test whether the site and the policy are None."""

    @property
    def site(self) -> object | None:
        """The site of the NAS, or the default site."""

    @property
    def policy(self) -> object | None:
        """The published policy of the site."""


class StoredEndpoint(Protocol):
    @property
    def status(self) -> str: ...
    @property
    def valid_until(self) -> int:
        """End of the approval in epoch seconds; 0 for no end."""


class StoredUser(Protocol):
    @property
    def disabled(self) -> bool: ...
    @property
    def valid_until(self) -> int:
        """End of the user's validity in epoch seconds; 0 for no end."""


class Authority(Protocol):
    """A trusted certificate authority."""

    @property
    def own(self) -> bool:
        """Whether Admit created this authority."""

    @property
    def revoked(self) -> bool:
        """Whether this authority, or an authority above it, was revoked."""

    @property
    def not_after(self) -> int:
        """End of the validity in epoch seconds."""

    @property
    def listed_until(self) -> int:
        """Epoch seconds until which the latest revocation list of this authority is valid."""


class OwnCertificate(Protocol):
    """A certificate that Admit issued."""

    @property
    def status(self) -> str:
        """Status such as "valid", "suspended" or "revoked"."""

    @property
    def profile(self) -> str: ...


class ExternalStatus(Protocol):
    """The status of a certificate from an external authority."""

    @property
    def revoked(self) -> bool: ...
    @property
    def until(self) -> int:
        """Epoch seconds until which Admit can use the status."""


class AdmissionFacts(Protocol):
    """Data about one request that the checks need. `find_refusal` reads the data of a check only after all earlier
    checks passed."""

    @property
    def tenant(self) -> TenantTerms: ...
    @property
    def method(self) -> str: ...
    @property
    def tls_version(self) -> str:
        """Version such as "1.3"; "" if unknown. `find_refusal` reads the version after `refuse_login`, and only for
        methods with TLS."""

    @property
    def now_seconds(self) -> int: ...
    @property
    def place(self) -> AdmissionPlace: ...

    def refuse_login(self) -> Refusal | None:
        """Return the reason to reject the credentials; None if the credentials are valid."""

    def is_vouched_for(self) -> bool:
        """Return whether a directory or provider verified the user. If so, Admit ignores the tenant's own users."""

    def find_user(self) -> StoredUser | None: ...

    def find_standing(self) -> Standing: ...


# Status of a tenant whose devices Admit can admit.
ACTIVE = "active"
TENANT_SUSPENDED = Refusal("tenant-suspended")
UNKNOWN_USER, _USER_DISABLED = Refusal("unknown-user"), Refusal("user-disabled")
_NO_SITE, POLICY_MISSING = Refusal("no-site"), Refusal("no-policy")
_BLOCKED = Refusal("endpoint-blocked")


def find_refusal(facts: AdmissionFacts) -> Refusal | None:
    """Return the reason of the first failed check before the policy; None if the policy decides."""
    tenant, method = facts.tenant, facts.method
    if tenant.status != ACTIVE:
        return TENANT_SUSPENDED
    refusal = facts.refuse_login()
    if refusal is None and method in TLS_METHODS:
        refusal = _refuse_tls_version(facts.tls_version, tenant.tls_versions)
    if refusal is not None:
        return refusal
    if method not in tenant.methods:
        return Refusal("method-not-offered", describe_offer(tenant.methods))
    if method in USER_METHODS and not facts.is_vouched_for():
        refusal = refuse_user(facts.find_user(), facts.now_seconds)
        if refusal is not None:
            return refusal
    place = facts.place
    if place.site is None:
        return _NO_SITE
    if place.policy is None:
        return POLICY_MISSING
    return _BLOCKED if facts.find_standing() == "blocked" else None


def refuse_user(user: StoredUser | None, now_seconds: int) -> Refusal | None:
    """Return the reason to reject the tenant's own user, or None. `user` is None if the user is unknown."""
    if user is None:
        return UNKNOWN_USER
    return _USER_DISABLED if user.disabled or 0 < user.valid_until <= now_seconds else None


def _refuse_tls_version(version: str, offered: Collection[str]) -> Refusal | None:
    if version in offered or (not version and set(offered) >= set(TLS_VERSIONS)):
        return None
    return Refusal("tls-version", f"TLS {version or '?'}; {describe_offer(offered)}")


def describe_offer(names: Collection[str]) -> str:
    return f"offered here: {', '.join(names)}"


def get_standing(endpoint: StoredEndpoint | None, now_seconds: int) -> Standing:
    """Return the approval status of the device; `endpoint` is None for an unknown device."""
    if endpoint is None:
        return "unapproved"
    status = endpoint.status
    if status == "active":
        return "expired" if 0 < endpoint.valid_until <= now_seconds else "approved"
    return "blocked" if status == "blocked" else "unapproved"


def refuse_certificate(
    authority: Authority,
    own: OwnCertificate | None,
    external: ExternalStatus | None,
    *,
    now_seconds: int,
    is_status_required: bool,
) -> str:
    """Return a reason to reject a certificate that the trusted `authority` signed, or "".

    `own` is the stored certificate if Admit issued it. `external` is the known status of a certificate that an
    external authority issued. `own` and `external` are None if nothing is stored.
    """
    if authority.revoked:
        return "ca-revoked"
    if authority.not_after < now_seconds:
        return "ca-expired"
    if authority.own:
        if own is None:
            return "certificate-unknown"
        if own.status != "valid":
            return f"certificate-{own.status}"
        return "" if own.profile.startswith(_CLIENT_PROFILES) else "wrong-key-usage"
    if external is not None and external.revoked:
        return "certificate-revoked"
    is_fresh = authority.listed_until > now_seconds or (external is not None and external.until > now_seconds)
    return "certificate-status-unknown" if is_status_required and not is_fresh else ""


def explain_denial(reason: str, *, method: str, standing: Standing, has_mac: bool) -> str:
    """Return the reason to report for a decision of a policy.

    A MAB request that no rule matched gets a more precise reason, unless the device is approved. The reason is
    `endpoint-expired` (expired approval), `unknown-mac` (no approval) or `no-station` (no MAC address in the request).
    """
    if reason != "fallback-denied" or method != "mab" or standing == "approved":
        return reason
    if standing == "expired":
        return "endpoint-expired"
    return "unknown-mac" if has_mac else "no-station"


class PassphraseDecision(Protocol):
    """A decision whose reply may need the passphrase of the endpoint."""

    @property
    def passphrase(self) -> tuple[AttributeTemplate, ...]: ...
    @property
    def needs_passphrase(self) -> bool: ...

    def refused(self, reason: str, detail: str = "", *, is_enforced: bool = False) -> Self: ...


AnyDecision = TypeVar("AnyDecision", bound=PassphraseDecision)


def require_passphrase(decision: AnyDecision, *, has_passphrase: bool, has_ssid: bool) -> AnyDecision:
    """Return the decision. If the reply needs a passphrase that Admit cannot send, return a deny.

    In monitor mode, the device gets the reply of the fallback. If the reply of the fallback needs a passphrase that
    Admit cannot send, Admit denies, too.
    """
    if not decision.needs_passphrase and not decision.passphrase:
        return decision
    why = "" if has_passphrase else "no passphrase is stored"
    if not has_ssid and any(template.encoding == "pmk" for template in decision.passphrase):
        why = "the request has no SSID, but the key depends on it"
    if not why:
        return decision
    return decision.refused("no-passphrase", why, is_enforced=bool(decision.passphrase))
