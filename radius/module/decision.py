"""Decides whether to admit a device whose credentials were verified (post-auth), and with which results."""

from typing import NamedTuple

from nac.cellformat import self_test_ticket as self_test
from nac.cellformat.endpoint_facts import get_endpoint_value
from nac.cellformat.identity_names import strip_realm
from nac.cellformat.packet_values import Values, packet_attribute_name, packet_value
from nac.cellformat.replica.records import EndpointRecord, NasRecord, PolicyRecord, SiteRecord, SlotRecord, UserRecord
from nac.cellformat.replica.store import ReplicaView
from nac.cellformat.self_test_ticket import Ticket
from nac.engine import PolicyRequest, decide
from nac.engine.admission import (
    POLICY_MISSING,
    TLS_METHODS,
    USER_METHODS,
    Refusal,
    Standing,
    describe_offer,
    explain_denial,
    find_refusal,
    get_standing,
)
from nac.engine.vendors import vendor_name
from nac.inventory.identity_sources.verifier_messages import VerificationResult
from nac.kit import clock
from nac.kit.mac import is_random_mac, normalise_mac
from radius.module.certificate_fields import certificate_fields
from radius.module.eap_types import TUNNEL_OF_METHOD, eap_names, list_requested_types, offer_detail
from radius.module.failure_reasons import explain_failure
from radius.module.login_checks import (
    build_played_endpoint,
    explain_mixed_conversation,
    read_self_test_ticket,
    refuse_tls_login,
)
from radius.module.mab import password_detail
from radius.module.policies import NO_POLICY, CompiledPolicies, Outcome, SitePolicy
from radius.module.request import AccessRequest, Attributes, first_value, group_by_name
from radius.module.tls_sessions import CertificateUnreadable
from radius.module.trust import AUTHORITY_REASONS, issuer_detail
from radius.module.verifier_results import user_facts

_TUNNEL_METHODS = TLS_METHODS - {"eap-tls"}
# For these methods, a failure without another cause means a wrong password.
_PASSWORD_METHODS = ("mab", "pap", "chap", "mschapv2", "eap-ttls-pap")

# Without this hint, a help desk might approve an address that the device changes the next day.
_RANDOM_MAC_DETAIL = (
    "the device uses a random (private) address: turn off random addresses for this network on the device"
)

# Values of attributes, by the attribute's name in policies.
EngineFacts = dict[str, Values]


class RequestLocation(NamedTuple):
    """Tenant, NAS and site of a request. NAS and site are None if the NAS is not registered."""

    slot: SlotRecord | None
    nas: NasRecord | None
    site: SiteRecord | None
    # Published policy of the site; None if the site has no published policy.
    policy: PolicyRecord | None
    # Attributes of NAS and site, for rules.
    facts: EngineFacts

    @property
    def nas_id(self) -> str:
        return self.nas.nas_id if self.nas else ""

    @property
    def site_id(self) -> str:
        return self.site.site_id if self.site else ""


UNKNOWN_LOCATION = RequestLocation(None, None, None, None, {})
# Limit of cached locations. Requests with invented NAS names displace only entries of this cache.
MAX_LOCATIONS = 10_000


class LocationCache:
    """Caches locations while the replica is unchanged, which saves six lookups for each packet.

    Not thread-safe. Each instance of the module has its own cache. radiusd calls each instance in only one thread at a
    time.
    """

    def __init__(self) -> None:
        self._version: tuple[str, int] | None = None
        self._places: dict[tuple[int, str, str, str], RequestLocation] = {}
        # Locations with the same policy share its document, which may take 100 kB.
        self._policies: dict[tuple[int, str], PolicyRecord | None] = {}

    def find(self, request: AccessRequest, view: ReplicaView) -> RequestLocation:
        version = view.version
        places = self._places
        if version != self._version or len(places) >= MAX_LOCATIONS:
            places.clear()
            self._policies.clear()
            self._version = version
        key = (request.slot, request.nas_identifier, request.nas_address, request.source)
        place = places.get(key)
        if place is None:
            place = places[key] = self._locate(request, view)
        return place

    def _locate(self, request: AccessRequest, view: ReplicaView) -> RequestLocation:
        slot = view.slot(request.slot)
        if slot is None:
            return UNKNOWN_LOCATION
        nas = request.find_nas(view, slot.tenant)
        site_id = nas.site_id if nas else slot.default_site_id
        site = view.site(slot.tenant, site_id) if site_id else None
        policy = self._policy(slot.tenant, site.policy_id, view) if site and site.policy_id else None
        facts: EngineFacts = {}
        if site is not None:
            facts["site.name"] = (site.name,)
        if nas is not None:
            facts["nas.name"] = (nas.name,)
            facts["nas.vendor"] = (vendor_name(nas.vendor),)
        return RequestLocation(slot, nas, site, policy, facts)

    def _policy(self, tenant: int, policy_id: str, view: ReplicaView) -> PolicyRecord | None:
        key = tenant, policy_id
        if key not in self._policies:
            self._policies[key] = view.policy(tenant, policy_id)
        return self._policies[key]


class AuthenticationCase:
    """A device's request, and the data for the verdict about this request.

    Provides the data that `nac.engine.admission` needs from the replica.
    """

    __slots__ = (
        "_certificate",
        "answer",
        "at",
        "certificate_der",
        "endpoint",
        "external_authority",
        "facts",
        "identity",
        "method",
        "now_seconds",
        "place",
        "request",
        "session_files",
        "standing",
        "state",
        "stored_version",
        "tenant",
        "ticket",
        "user",
        "view",
    )

    def __init__(self, request: AccessRequest, method: str, state: Attributes | None = None) -> None:
        self.request = request
        self.method = method
        self.state: Attributes = {} if state is None else state
        # TLS version from the stored session, if radiusd did not record a version.
        self.stored_version = ""
        # Name for the decision: the inner name of a tunnel, or the name in the certificate once it is read, otherwise
        # User-Name. The tenant's own realm is removed.
        inner_name = first_value(self.state, "Admit-User") if method in _TUNNEL_METHODS else ""
        self.identity = inner_name or request.user_name
        self.at = clock.epoch_microseconds()
        self.now_seconds = self.at // 1_000_000
        self.place = UNKNOWN_LOCATION
        # Result of the verifier, if radiusd used it.
        self.answer: VerificationResult | None = None
        self._certificate: Attributes | None = None
        # The device's record in the replica, whether approved or not.
        self.endpoint: EndpointRecord | None = None
        self.standing: Standing = "unapproved"
        # The user's record, if the tenant stores the user itself.
        self.user: UserRecord | None = None
        # Files of the stored TLS session and of the resumed session.
        self.session_files: tuple[str, ...] = ()
        # Certificate in the stored TLS session; b"" if it was not read.
        self.certificate_der = b""
        # Id of the external authority that issued the certificate, if the journal record must contain the certificate;
        # otherwise "".
        self.external_authority = ""
        # Attributes for policies that the packet does not contain.
        self.facts: EngineFacts = {}
        # Set if the request belongs to a self-test of the tenant.
        self.ticket: Ticket | None = None
        # `decide_case` sets tenant and view, and deletes the view at its end.
        self.tenant: SlotRecord
        self.view: ReplicaView

    def locate(self, place: RequestLocation) -> None:
        """Set the location of the request, and remove the tenant's own realms from the user name.

        So sessions, limits and log use the same name for a user. A name in a certificate is not changed, because Admit
        looks up no user by this name.
        """
        self.place = place
        if place.slot is not None and place.slot.realms and self.method != "eap-tls":
            self.identity = strip_realm(self.identity, place.slot.realms)

    @property
    def certificate(self) -> Attributes:
        """Attributes of the device's certificate.

        Until the module has read the certificate from the stored session, this property contains the attributes that
        radiusd reports. These attributes are sufficient to explain a failed login.
        """
        if self._certificate is None:
            has_certificate = "TLS-Client-Cert-Serial" in self.request.attributes
            self._certificate = group_by_name(self.request.pairs) if has_certificate else {}
        return self._certificate

    @certificate.setter
    def certificate(self, read: Attributes) -> None:
        self._certificate = read

    @property
    def vendor(self) -> Values:
        """Vendor of the NAS, which determines the attributes of the reply; the result is empty if the NAS is not
        registered.
        """
        return self.place.facts.get("nas.vendor", ())

    @property
    def tls_version(self) -> str:
        versions = self.state.get("TLS-Session-Version")
        return versions[0].removeprefix("TLS ") if versions else self.stored_version

    @property
    def resumed(self) -> bool:
        return "EAP-Session-Resumed" in self.request.attributes

    def refuse_login(self) -> Refusal | None:
        request, answer = self.request, self.answer
        if request.nas_identifier == self_test.NAS_IDENTIFIER:
            self.ticket = read_self_test_ticket(request, self.tenant, self.now_seconds)
            if self.ticket is None:
                return Refusal("self-test-refused")
        if answer is not None and not answer.verified:
            return Refusal(answer.reason, answer.detail)
        if "EAP-Message" in request.attributes and (mixed := explain_mixed_conversation(self.state)):
            return Refusal("eap-failed", mixed)
        return refuse_tls_login(self) if self.method in TLS_METHODS else None

    def is_vouched_for(self) -> bool:
        return self.answer is not None and bool(self.answer.source)

    def find_user(self) -> UserRecord | None:
        """Return the current record: the user may have been disabled or deleted since the conversation began."""
        self.user = self.view.user(self.tenant.tenant, self.identity)
        return self.user

    def find_standing(self) -> Standing:
        mac = self.request.mac
        if self.ticket is not None:
            self.endpoint = build_played_endpoint(self.ticket)
        elif mac:
            self.endpoint = self.view.endpoint(self.tenant.tenant, mac)
        self.standing = get_standing(self.endpoint, self.now_seconds)
        return self.standing


def decide_case(case: AuthenticationCase, view: ReplicaView, policies: CompiledPolicies) -> Outcome:
    """Verdict about a device whose credentials are valid. Stores the attributes for rules in `case`."""
    place = case.place
    slot, site = place.slot, place.site
    if slot is None:
        return Outcome(False, "not-ready")
    request = case.request
    if not request.mac and case.method == "mab" and request.names_its_station(place.nas):
        request.mac = normalise_mac(request.user_name)
    facts = case.facts = place.facts.copy()
    facts["method"] = (case.method,)
    facts["identity"] = (case.identity,)
    case.tenant, case.view = slot, view
    try:
        refusal = find_refusal(case)
        if refusal is POLICY_MISSING and site is not None and site.monitor:
            return policies.for_site(site, NO_POLICY).deny_undecided(case.vendor, refusal.reason)
        if refusal is not None or site is None or place.policy is None:
            return Outcome(False, *(refusal or POLICY_MISSING))
        return apply_policy(case, policies.for_site(site, place.policy))
    finally:
        # A view that stays referenced occupies one of LMDB's reader slots, even after the transaction has ended.
        del case.view


def explain_reject(case: AuthenticationCase, view: ReplicaView) -> Outcome:
    """Explain a reject that radiusd itself decided."""
    slot = case.place.slot
    if slot is None:
        return Outcome(False, "not-ready")
    if case.answer is not None and not case.answer.verified:
        return Outcome(False, case.answer.reason, case.answer.detail)
    # Use the messages from inside the tunnel first, because the failure inside the tunnel is the cause.
    messages = (*case.state.get("Module-Failure-Message", ()), *case.request.values("Module-Failure-Message"))
    reason, detail = explain_failure(messages)
    inside = first_value(case.state, "Admit-Reason")
    if inside:
        reason, detail = inside, first_value(case.state, "Admit-Detail")
    elif case.method in _PASSWORD_METHODS and reason in ("eap-failed", "tls-failed"):
        reason = "wrong-password"
    if case.method == "mab" and reason == "wrong-password":
        reason, detail = "wrong-mab-password", password_detail(case.place.nas)
    elif reason == "unknown-ca" and is_foreign_authority(case, view, slot):
        reason = "wrong-tenant-ca"
    if reason == "method-not-offered" and not (inside and detail):
        detail = offer_detail(slot.methods, case.method if inside else _requested_types(case))
    elif reason in AUTHORITY_REASONS:
        detail = issuer_detail(reason, group_by_name(case.request.pairs), detail)
    elif reason == "tls-version":
        detail = f"{detail}; {describe_offer(slot.tls_versions)}".removeprefix("; ")
    return Outcome(False, reason, detail)


def _requested_types(case: AuthenticationCase) -> str:
    """EAP types that the device requests instead of the proposed type; "" if unknown.

    The types may come from inside a tunnel or from outside.

    For a request inside a tunnel, sets the method of the case to that of the tunnel, because the device rejected the
    inner method.
    """
    inner = list_requested_types(first_value(case.state, "Admit-Inner-EAP"))
    outer = list_requested_types(case.request.attributes.get("EAP-Message", ""))
    if not inner:
        return eap_names(outer)
    case.method = TUNNEL_OF_METHOD.get(case.method, case.method)
    return f"{eap_names(inner)} inside {eap_names(outer)}"


def is_foreign_authority(case: AuthenticationCase, view: ReplicaView, slot: SlotRecord) -> bool:
    """Whether another tenant, but not this tenant, trusts an authority of the certificate's chain.

    Admit uses the result only for the text of the reason.

    OpenSSL verifies from the root down. So if the root is unknown, radiusd has seen only the issuing authority.
    """
    for name in ("TLS-Client-Cert-Issuer", "TLS-Cert-Subject", "TLS-Cert-Issuer"):
        for issuer in case.request.values(name):
            authority = view.authority(issuer)
            if authority is not None and slot.tenant not in dict(authority.trusted_by):
                return True
    return False


def _count_sessions(case: AuthenticationCase) -> None:
    """Add counts of live sessions for rules. The counts include an existing session of this device.

    A count is missing if the request has no MAC address or user name.
    """
    view, tenant = case.view, case.tenant.tenant
    if case.request.mac:
        case.facts["session.count.endpoint"] = (view.session_count(tenant, f"m{case.request.mac}"),)
    identity = case.facts.get("identity")
    # With MAB, the name is a MAC address and not a user.
    if identity and identity[0] and case.method != "mab":
        case.facts["session.count.user"] = (view.session_count(tenant, f"u{str(identity[0]).lower()}"),)


def apply_policy(case: AuthenticationCase, site_policy: SitePolicy) -> Outcome:
    """Evaluate the policy for a request that passed all other checks, with the attributes that its rules use."""
    request, facts, endpoint, now_seconds = case.request, case.facts, case.endpoint, case.now_seconds
    known = case.standing == "approved"
    facts["endpoint.known"] = (known,)
    if endpoint is not None:
        if endpoint.rule_groups:
            facts["endpoint.group"] = endpoint.rule_groups
        if known:
            facts["endpoint.name"] = (endpoint.name,)
            facts["endpoint.group"] = endpoint.groups + endpoint.rule_groups
            for name, value in endpoint.attributes.items():
                facts["endpoint.attribute." + name] = (value,)
        for name in site_policy.endpoint_reads:
            values = get_endpoint_value(endpoint, name, now_seconds)
            if values:
                facts[name] = values
    if case.method in USER_METHODS:
        facts |= user_facts(case.answer, case.user)
    if site_policy.session_reads:
        _count_sessions(case)
    for name in site_policy.packet_reads:
        values = packet_value(request, name)
        if values:
            facts[name] = values
        elif request.may_have_lost(packet_attribute_name(name)):
            # The rules cannot be evaluated: a rule that uses this attribute might deny.
            return site_policy.deny_undecided(case.vendor, "unreadable-text", packet_attribute_name(name))
    if site_policy.certificate_reads and case.method == "eap-tls":
        refused = _add_certificate_fields(case, site_policy.certificate_reads)
        if refused is not None:
            return refused
    outcome = site_policy.outcome(decide(site_policy.policy, PolicyRequest(facts, now_seconds)))
    if known:
        return outcome
    reason = explain_denial(outcome.reason, method=case.method, standing=case.standing, has_mac=bool(request.mac))
    return outcome if reason == outcome.reason else _name_cause(request, outcome, reason)


def _name_cause(request: AccessRequest, outcome: Outcome, reason: str) -> Outcome:
    detail = outcome.detail
    if reason == "no-station":
        detail = request.station_detail()
    elif reason == "unknown-mac" and is_random_mac(request.mac):
        detail = _RANDOM_MAC_DETAIL
    return outcome._replace(reason=reason, detail=detail)


def _add_certificate_fields(case: AuthenticationCase, names: tuple[str, ...]) -> Outcome | None:
    if not case.certificate_der:
        # The rules cannot be evaluated: a rule that uses one of these fields might deny.
        return Outcome(False, "certificate-unread", ", ".join(names))
    try:
        case.facts.update(certificate_fields(case.certificate_der, names, at=case.at // 1_000_000))
    except CertificateUnreadable as error:
        return Outcome(False, "certificate-invalid", str(error))
    return None
