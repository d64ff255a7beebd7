"""Post-auth: after the credentials hold, policy decides whether to admit the device, and with which results."""

from typing import NamedTuple

from nac.cellformat import self_test_ticket as self_test
from nac.cellformat.endpoint_facts import get_endpoint_value
from nac.cellformat.identity_names import strip_realm
from nac.cellformat.methods import TLS_VERSIONS
from nac.cellformat.packet_values import Values, packet_attribute_name, packet_value
from nac.cellformat.replica.records import EndpointRecord, NasRecord, PolicyRecord, SiteRecord, SlotRecord
from nac.cellformat.replica.store import ReplicaView
from nac.cellformat.self_test_ticket import Ticket
from nac.engine import PolicyRequest, decide
from nac.engine.vendors import vendor_name
from nac.inventory.identity_sources.verifier_messages import VerificationResult
from nac.kit import clock
from nac.kit.mac import is_random_mac, normalise_mac
from radius.module.certificate_fields import certificate_fields
from radius.module.eap_names import eap_names, list_requested_types
from radius.module.eap_types import TUNNEL_OF_METHOD, TUNNELLED_METHODS, UNFINISHED_TUNNELS, offer_detail
from radius.module.failure_reasons import explain_failure
from radius.module.mab import password_detail
from radius.module.policies import NO_POLICY, CompiledPolicies, Outcome
from radius.module.request import AccessRequest, Attributes, first_value, group_by_name
from radius.module.tls_sessions import (
    CertificateUnreadable,
    SessionUnreadable,
    discard_session,
    keep_resumable,
    read_stored_certificate,
    read_stored_version,
)
from radius.module.trust import (
    AUTHORITY_REASONS,
    check_certificate,
    find_issuer,
    find_unreported_authority,
    holder_name,
    issuer_detail,
)
from radius.module.verifier_results import user_facts

_TUNNEL_METHODS = frozenset((*TUNNELLED_METHODS, *UNFINISHED_TUNNELS))
_TLS_METHODS = frozenset(("eap-tls", *_TUNNEL_METHODS))
USER_METHODS = frozenset((*TUNNELLED_METHODS, "pap", "chap", "mschapv2"))
# Methods whose failure without another cause means a wrong password.
_PASSWORD_METHODS = ("mab", "pap", "chap", "mschapv2", "eap-ttls-pap")

# Otherwise a help desk approves an address that the device changes the next day.
_RANDOM_MAC_DETAIL = "the device invented this address (random, private): turn that off for this network"

# Engine attributes by name.
EngineFacts = dict[str, Values]


class RequestLocation(NamedTuple):
    """Tenant, NAS and site of a request; NAS and site are None if unregistered."""

    slot: SlotRecord | None
    nas: NasRecord | None
    site: SiteRecord | None
    # The policy there, None if nothing is published.
    policy: PolicyRecord | None
    # Attributes of the place for rules.
    facts: EngineFacts

    @property
    def nas_id(self) -> str:
        return self.nas.nas_id if self.nas else ""

    @property
    def site_id(self) -> str:
        return self.site.site_id if self.site else ""


UNKNOWN_LOCATION = RequestLocation(None, None, None, None, {})
# Cache size. Invented NAS names displace only entries of this cache.
MAX_LOCATIONS = 10_000


class LocationCache:
    """Caches places while the replica is unchanged: it saves six lookups for each packet.

    Not thread-safe: each instance of the module, which radiusd calls one at a time, has its own.
    """

    def __init__(self) -> None:
        self._version: tuple[str, int] | None = None
        self._places: dict[tuple[int, str, str, str], RequestLocation] = {}
        # Places of one policy share its document, which may have 100 kB.
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
    """A device's request, and facts collected on the way to a verdict."""

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
        "place",
        "request",
        "session_files",
        "state",
        "stored_version",
        "ticket",
    )

    def __init__(self, request: AccessRequest, method: str, state: Attributes | None = None) -> None:
        self.request = request
        self.method = method
        self.state: Attributes = {} if state is None else state
        # TLS version from the stored session, if radiusd has noted none.
        self.stored_version = ""
        # The name: inside a tunnel the inner one, with a certificate its name once read. Without the tenant's own
        # realm.
        inner_name = first_value(self.state, "Admit-User") if method in _TUNNEL_METHODS else ""
        self.identity = inner_name or request.user_name
        self.at = clock.epoch_microseconds()
        self.place = UNKNOWN_LOCATION
        # Result of the verifier, if used.
        self.answer: VerificationResult | None = None
        self._certificate: Attributes | None = None
        # The replica's record of the device, approved or not.
        self.endpoint: EndpointRecord | None = None
        # File of the stored session, and of the resumed one.
        self.session_files: tuple[str, ...] = ()
        # From the stored session; b"" if none was read.
        self.certificate_der = b""
        # Id of the external authority that issued the certificate, if to be reported.
        self.external_authority = ""
        # Attributes for the engine that the packet does not have.
        self.facts: EngineFacts = {}
        # Set for a self-test of the tenant.
        self.ticket: Ticket | None = None

    def locate(self, place: RequestLocation) -> None:
        """Set the place, and remove the tenant's own realms from the name.

        So sessions, limits and log have one name for a user. With a certificate the name is not looked up.
        """
        self.place = place
        if place.slot is not None and place.slot.realms and self.method != "eap-tls":
            self.identity = strip_realm(self.identity, place.slot.realms)

    @property
    def certificate(self) -> Attributes:
        """The device's certificate; until it was read, in radiusd's words, which are enough to explain a failure."""
        if self._certificate is None:
            shown = "TLS-Client-Cert-Serial" in self.request.attributes
            self._certificate = group_by_name(self.request.pairs) if shown else {}
        return self._certificate

    @certificate.setter
    def certificate(self, read: Attributes) -> None:
        self._certificate = read

    @property
    def vendor(self) -> Values:
        """Vendor of the NAS, which selects the form of the reply; () if unregistered."""
        return self.place.facts.get("nas.vendor", ())

    @property
    def tls_version(self) -> str:
        said = self.state.get("TLS-Session-Version")
        return said[0].removeprefix("TLS ") if said else self.stored_version

    @property
    def resumed(self) -> bool:
        return "EAP-Session-Resumed" in self.request.attributes


def decide_case(case: AuthenticationCase, view: ReplicaView, policies: CompiledPolicies) -> Outcome:
    """The verdict for a device whose credentials hold. Stores facts in `case`."""
    slot = case.place.slot
    if slot is None:
        return Outcome(False, "not-ready")
    if case.method == "mab" and case.request.names_its_station(case.place.nas):
        case.request.mac = normalise_mac(case.request.user_name)
    case.facts = {**case.place.facts, "method": (case.method,), "identity": (case.identity,)}
    if slot.status != "active":
        return Outcome(False, "tenant-suspended")
    if case.request.nas_identifier == self_test.NAS_IDENTIFIER:
        case.ticket = read_self_test_ticket(case.request, slot, case.at // 1_000_000)
        if case.ticket is None:
            return Outcome(False, "self-test-refused")
    if case.answer is not None and not case.answer.verified:
        return Outcome(False, case.answer.reason, case.answer.detail)
    if "EAP-Message" in case.request.attributes and (mixed := _mixed_conversation(case)):
        return Outcome(False, "eap-failed", mixed)
    if case.method in _TLS_METHODS and (refused := _check_tls(case, view, slot)):
        return refused
    if case.method not in slot.methods:
        return Outcome(False, "method-not-offered", offer_detail(slot.methods))
    if case.method in USER_METHODS and (refused := _check_user(case, view, slot)):
        return refused
    return apply_policy(case, view, policies, slot)


def read_self_test_ticket(request: AccessRequest, slot: SlotRecord, now_seconds: int) -> Ticket | None:
    """The valid self-test ticket of the request; None without one."""
    return self_test.read_ticket(
        mac=request.mac,
        port=request.nas_port,
        group=request.attributes.get("Connect-Info", ""),
        tenant_key=slot.cui_key,
        now_seconds=now_seconds,
    )


def _mixed_conversation(case: AuthenticationCase) -> str:
    """Why the session-state is not of one EAP conversation with one TLS handshake; "" if it is."""
    if "Admit-Participants" not in case.state:
        return "radiusd has no state of this conversation"
    return "two TLS handshakes in one conversation" if len(case.state.get("TLS-Cache-Filename", ())) > 1 else ""


def _check_tls(case: AuthenticationCase, view: ReplicaView, slot: SlotRecord) -> Outcome | None:
    if not case.tls_version:
        # Device data came with the end of the handshake: radiusd notes no version then (tls_handshake_recv in
        # src/main/tls.c of 3.2.7), but always stores the session.
        case.stored_version = read_stored_version(first_value(case.state, "TLS-Cache-Filename"))
    refused = _check_client_certificate(case, view, slot) if case.method == "eap-tls" else _check_tunnel(case)
    version = case.tls_version
    if refused is None and version not in slot.tls_versions and (version or slot.tls_versions != TLS_VERSIONS):
        return Outcome(False, "tls-version", f"TLS {version or '?'}; offered here: {', '.join(slot.tls_versions)}")
    return refused


def _check_tunnel(case: AuthenticationCase) -> Outcome | None:
    """Check that the password held in this very conversation.

    If a TLS session is resumed, radiusd asks for no password and does not know the user, or whether the session began
    with a password. Even one that began with a certificate is accepted (cbtls_get_session in src/main/tls.c of 3.2.7).
    So no session is kept for resumption.
    """
    discard_session(first_value(case.state, "TLS-Cache-Filename"))
    if case.resumed or "Admit-Verified" not in case.state:
        return Outcome(False, "eap-failed", "a TLS session was resumed; this method needs the password every time")
    case.facts["tls.version"] = (case.tls_version,)
    case.facts["tls.resumed"] = (False,)
    return None


def _check_user(case: AuthenticationCase, view: ReplicaView, slot: SlotRecord) -> Outcome | None:
    """Check the current state: the user may have been blocked or removed since the conversation began."""
    if case.answer is not None and case.answer.source:
        return None
    user = view.user(slot.tenant, case.identity)
    if user is None:
        return Outcome(False, "unknown-user")
    return Outcome(False, "user-disabled") if user.is_disabled_or_expired(case.at // 1_000_000) else None


def _check_client_certificate(case: AuthenticationCase, view: ReplicaView, slot: SlotRecord) -> Outcome | None:
    try:
        case.certificate = _read_client_certificate(case)
    except (SessionUnreadable, CertificateUnreadable) as error:
        return Outcome(False, "certificate-invalid", str(error))
    facts = case.facts
    # The certificate's name counts for policy, log and accounting; the device may claim any other one.
    name = holder_name(case.certificate)
    facts["identity"] = (name,) if name else ()
    case.identity = name or first_value(case.certificate, "TLS-Client-Cert-Serial")
    facts["tls.version"] = (case.tls_version,)
    facts["tls.resumed"] = (case.resumed,)
    at = case.at // 1_000_000
    issuer = find_issuer(case.certificate, view, slot)
    reason = check_certificate(case.certificate, case.certificate_der, issuer, view, slot, facts, at=at)
    case.external_authority = find_unreported_authority(slot.tenant, case.certificate_der, issuer, at=at)
    if not reason and facts.get("certificate.profile") == (self_test.SELF_TEST_PROFILE,):
        # No device has it, so a stolen key of it is useless.
        reason = "" if case.ticket else "self-test-refused"
        facts["certificate.profile"] = (self_test.PLAYED_PROFILE,)
    if not reason:
        return None
    # Full handshakes reject it as well, so the session is useless.
    for session_file in case.session_files:
        discard_session(session_file)
    return Outcome(False, reason, issuer_detail(reason, case.certificate))


def _read_client_certificate(case: AuthenticationCase) -> Attributes:
    """The device's certificate, from the session that radiusd has stored.

    Raises SessionUnreadable or CertificateUnreadable.
    """
    try:
        session_file = first_value(case.state, "TLS-Cache-Filename")
        resumed_file = first_value(case.certificate, "TLS-Client-Cert-Filename")
        case.session_files = session_file, resumed_file
        if not session_file:
            session_file = resumed_file
            case.certificate_der, certificate = read_stored_certificate(session_file)
            return certificate
        case.certificate_der, certificate = read_stored_certificate(session_file)
        if case.resumed or case.tls_version == "1.2":
            keep_resumable(session_file, certificate)
        return certificate
    except SessionUnreadable:
        if case.resumed or not case.certificate:
            raise
        # No space for sessions, or a client without tickets: use radiusd's words if possible.
        return case.certificate


def explain_reject(case: AuthenticationCase, view: ReplicaView) -> Outcome:
    """Explain a reject that radiusd itself decided."""
    slot = case.place.slot
    if slot is None:
        return Outcome(False, "not-ready")
    if case.answer is not None and not case.answer.verified:
        return Outcome(False, case.answer.reason, case.answer.detail)
    # The failure inside a tunnel came first.
    said = (*case.state.get("Module-Failure-Message", ()), *case.request.values("Module-Failure-Message"))
    reason, detail = explain_failure(said)
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
        detail = f"{detail}; offered here: {', '.join(slot.tls_versions)}".removeprefix("; ")
    return Outcome(False, reason, detail)


def _requested_types(case: AuthenticationCase) -> str:
    """EAP types that the device wants instead of the proposed one, inside a tunnel or not; "" if unknown.

    Inside, the method is then unknown, because the device did not accept the proposed one.
    """
    inner = list_requested_types(first_value(case.state, "Admit-Inner-EAP"))
    outer = list_requested_types(case.request.attributes.get("EAP-Message", ""))
    if not inner:
        return eap_names(outer)
    case.method = TUNNEL_OF_METHOD.get(case.method, case.method)
    return f"{eap_names(inner)} inside {eap_names(outer)}"


def is_foreign_authority(case: AuthenticationCase, view: ReplicaView, slot: SlotRecord) -> bool:
    """Whether the chain has an authority of another tenant and not of this one. Only selects the words of a reject.

    OpenSSL verifies from the root down, so at an unknown root radiusd has seen only the issuing authority.
    """
    for name in ("TLS-Client-Cert-Issuer", "TLS-Cert-Subject", "TLS-Cert-Issuer"):
        for issuer in case.request.values(name):
            authority = view.authority(issuer)
            if authority is not None and slot.tenant not in dict(authority.trusted_by):
                return True
    return False


def _count_sessions(case: AuthenticationCase, view: ReplicaView, slot: SlotRecord) -> None:
    """Add session counts; missing without a key. A current session of this device counts, too."""
    if case.request.mac:
        case.facts["session.count.endpoint"] = (view.session_count(slot.tenant, f"m{case.request.mac}"),)
    identity = case.facts.get("identity")
    # A MAC address as the name belongs to no user.
    if identity and identity[0] and case.method != "mab":
        case.facts["session.count.user"] = (view.session_count(slot.tenant, f"u{str(identity[0]).lower()}"),)


def apply_policy(case: AuthenticationCase, view: ReplicaView, policies: CompiledPolicies, slot: SlotRecord) -> Outcome:
    site = case.place.site
    if site is None:
        return Outcome(False, "no-site")
    record = case.place.policy
    if record is None:
        if not site.monitor:
            return Outcome(False, "no-policy")
        return policies.for_site(site, NO_POLICY).deny_undecided(case.vendor, "no-policy")
    request, facts, now_seconds = case.request, case.facts, case.at // 1_000_000
    expired = False
    endpoint = _find_endpoint(case, view, slot)
    if endpoint is not None:
        if endpoint.status == "blocked":
            return Outcome(False, "endpoint-blocked")
        expired = endpoint.status == "active" and 0 < endpoint.valid_until <= now_seconds
    known = endpoint is not None and endpoint.status == "active" and not expired
    facts["endpoint.known"] = (known,)
    if endpoint is not None and endpoint.rule_groups:
        facts["endpoint.group"] = endpoint.rule_groups
    if endpoint is not None and known:
        facts["endpoint.name"] = (endpoint.name,)
        facts["endpoint.group"] = endpoint.groups + endpoint.rule_groups
        for name, value in endpoint.attributes.items():
            facts["endpoint.attribute." + name] = (value,)
    if case.method in USER_METHODS:
        facts |= user_facts(case.identity, case.answer, view, slot)

    site_policy = policies.for_site(site, record)
    if endpoint is not None:
        case.endpoint = endpoint
        for name in site_policy.endpoint_reads:
            found = get_endpoint_value(endpoint, name, now_seconds)
            if found:
                facts[name] = found
    if site_policy.session_reads:
        _count_sessions(case, view, slot)
    for name in site_policy.packet_reads:
        found = packet_value(request, name)
        if found:
            facts[name] = found
        elif request.may_have_lost(packet_attribute_name(name)):
            # Do not skip a rule that denies by it.
            return site_policy.deny_undecided(case.vendor, "unreadable-text", packet_attribute_name(name))
    if site_policy.certificate_reads and case.method == "eap-tls":
        refused = _add_certificate_fields(case, site_policy.certificate_reads)
        if refused is not None:
            return refused
    decision = decide(site_policy.policy, PolicyRequest(facts, now_seconds))
    outcome = site_policy.outcome(decision)
    if not known and outcome.reason == "fallback-denied" and case.method == "mab":
        if expired:
            return outcome._replace(reason="endpoint-expired")
        if not request.mac:
            return outcome._replace(reason="no-station", detail=request.station_detail())
        return outcome._replace(
            reason="unknown-mac", detail=_RANDOM_MAC_DETAIL if is_random_mac(request.mac) else outcome.detail
        )
    return outcome


def _find_endpoint(case: AuthenticationCase, view: ReplicaView, slot: SlotRecord) -> EndpointRecord | None:
    if case.ticket is None:
        return view.endpoint(slot.tenant, case.request.mac) if case.request.mac else None
    if not case.ticket.known:
        return None
    groups = (case.ticket.group,) if case.ticket.group else ()
    return EndpointRecord("", "Self-test", "active", groups, 0, {})


def _add_certificate_fields(case: AuthenticationCase, names: tuple[str, ...]) -> Outcome | None:
    if not case.certificate_der:
        # Do not skip a rule that denies by one of them.
        return Outcome(False, "certificate-unread", ", ".join(names))
    try:
        case.facts.update(certificate_fields(case.certificate_der, names, at=case.at // 1_000_000))
    except CertificateUnreadable as error:
        return Outcome(False, "certificate-invalid", str(error))
    return None
