"""Simulation: the decision about a hypothetical request, with its explanation."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy.orm import Session

from nac.engine import Decision, DocumentMistake, Policy, PolicyRequest, RequestErrors, decide, parse_request
from nac.engine.admission import (
    POLICY_MISSING,
    USER_METHODS,
    Refusal,
    Standing,
    StoredUser,
    explain_denial,
    find_refusal,
    require_passphrase,
)
from nac.engine.attributes import RADIUS_PREFIX
from nac.engine.mistakes import problem_members
from nac.engine.reasons import REASONS
from nac.kit.clock import epoch_seconds
from nac.kit.errors import InvalidInput
from nac.kit.ids import TenantId
from nac.models import Site, Tenant
from nac.policies.document_checks import InvalidPolicy, check_document, require_dictionary
from nac.policies.explanation import explain_decision, trace_rows
from nac.policies.facts import (
    FactValues,
    StoredFacts,
    find_nas,
    load_stored_facts,
    nas_values,
    packet_facts,
    use_rule_names,
)
from nac.policies.json_rows import pool_rows, reply_rows
from nac.policies.service import find_policy, list_policies, require_version
from nac.policies.site_context import NO_SITE, build_site_context
from nac.sessions.decisions.service import LoggedDecision
from nac.tenancy import sites

# Prefixes that distinguish mistakes in the request from mistakes in the policy.
REQUEST_SIDE, POLICY_SIDE = "request", "policy"
_STATED_USER = ("user.group", "user.source")


class PresumedTerms(NamedTuple):
    """Status of the tenant, and the methods and TLS versions that it accepts."""

    status: str
    methods: Collection[str]
    tls_versions: Collection[str]


class SimulatedPlace(NamedTuple):
    site: object | None
    # A policy document.
    policy: object | None


class SimulatedAdmission:
    """Data about a simulated request for the checks before the policy.

    The simulation assumes that the credentials are valid. If the request does not contain a method or user, the
    simulation assumes an offered method and an existing user. If the request contains `endpoint.known`, the stored
    endpoint does not matter. If the request contains the user's groups, the stored user does not matter.
    """

    def __init__(
        self,
        tenant: Tenant,
        place: SimulatedPlace,
        values: Mapping[str, FactValues],
        stated: Collection[str],
        stored: StoredFacts,
        now_seconds: int,
    ) -> None:
        """`values` are all attributes of the request, including attributes that the simulation added.

        `stated` are the names of the attributes that the caller set.
        """
        self.method = str(next(iter(values.get("method", ())), ""))
        self.tls_version = str(next(iter(values.get("tls.version", ())), "")) or tenant.tls_versions[0]
        self.tenant = PresumedTerms(tenant.status, tenant.methods if self.method else ("",), tenant.tls_versions)
        self.place, self.now_seconds = place, now_seconds
        self._values, self._stated, self._stored = values, stated, stored

    @property
    def has_mac(self) -> bool:
        return bool(self._values.get("mac"))

    def refuse_login(self) -> Refusal | None:
        return None

    def is_vouched_for(self) -> bool:
        """Whether a directory may contain the user, or the request contains attributes of the user."""
        return not self._stored.has_user_facts or any(name in self._stated for name in _STATED_USER)

    def find_user(self) -> StoredUser | None:
        return self._stored.user

    def find_standing(self) -> Standing:
        if "endpoint.known" in self._stated:
            return "approved" if True in self._values["endpoint.known"] else "unapproved"
        return self._stored.standing


class InvalidSimulation(InvalidInput):
    """The request or the policy has mistakes."""

    def __init__(self, mistakes: list[tuple[str, DocumentMistake]]) -> None:
        """Each of the `mistakes` is a pair of a side (REQUEST_SIDE or POLICY_SIDE) and the mistake."""
        super().__init__("; ".join(f"{side}: {mistake}" for side, mistake in mistakes))
        self.mistakes = tuple(mistakes)

    @property
    def members(self) -> Mapping[str, Any]:
        placed = [
            DocumentMistake(".".join(filter(None, (side, mistake.place))), mistake.message)
            for side, mistake in self.mistakes
        ]
        return problem_members("The input", placed)


@dataclass(frozen=True, slots=True)
class Simulation:
    decision: Decision
    why: str
    # Slug of the policy; "" for a document that is not a stored version.
    policy: str
    version: int | None
    # Slug of the site. If there is no site (""), UTC and the policy's own fallback apply.
    site: str
    at: datetime
    request: Mapping[str, FactValues]
    # Names of the attributes that the simulation added.
    filled: tuple[str, ...]
    notes: tuple[str, ...]
    # Whether a check before the policy rejects the request.
    is_refused: bool = False


def simulate(
    session: Session,
    *,
    tenant_id: TenantId,
    request: object,
    document: object | None = None,
    slug: str = "",
    site: str = "",
    at: int | None = None,
    fill: bool = True,
) -> Simulation:
    """Decide `request` ({attribute: value or [values]}) at the time `at` (epoch seconds, default now).

    The first of these policies decides: `document`, the policy `slug`, the policy of the site, the tenant's only policy
    (if there is no site). If the policy of the site has no published version, the request is denied. Otherwise, if no
    version is published, the newest version decides. The site's time zone and fallback apply.

    `fill` adds missing attributes from the packet and from the stored NAS, endpoint (`mac`) and user (`user.name`).
    `fill` also applies the cell's checks before and after the policy. Without `site`, `fill` also applies the site of
    the NAS. Raises InvalidSimulation with every mistake.
    """
    at = epoch_seconds() if at is None else at
    mistakes: list[tuple[str, DocumentMistake]] = []
    parsed = _parse_request(use_rule_names(request), at, mistakes)
    notes: list[str] = []
    found = _find_packet_and_nas(session, tenant_id, parsed, notes) if parsed and fill else _PacketAndNas({}, None)
    where = sites.require_by_slug(session, tenant_id=tenant_id, slug=site) if site else found.site
    place = build_site_context(where) if where else NO_SITE
    version = None
    is_unplaced = found.is_unplaced and not (site or slug) and document is None
    if document is None and not is_unplaced and (slug or where is None):
        policy = find_policy(session, tenant_id=tenant_id, slug=slug)
        slug, version = policy.slug, policy.published_version
        stored = require_version(session, tenant_id=tenant_id, slug=slug, number=version)
        document, version = stored.document, stored.number
        if stored.status != "published":
            notes.append(f"Version {version} is not published: in real logins, this policy denies all requests.")
    elif document is None and where is not None:
        slug, version, document = _find_in_force(session, tenant_id, where.policy_id)
    if document is not None:
        _collect_policy_mistakes(session, tenant_id, document, mistakes)
    if mistakes or parsed is None:
        raise InvalidSimulation(mistakes)
    known = {**found.values, **parsed.attributes}
    facts = _load_facts(session, tenant_id, known, at) if fill else StoredFacts()
    if place.name and fill:
        facts.values["site.name"] = (place.name,)
    filled = {name: value for name, value in {**facts.values, **found.values}.items() if name not in parsed.attributes}
    full = PolicyRequest({**parsed.attributes, **filled}, at)
    admission = None
    if fill:
        simulated = SimulatedPlace(None if is_unplaced else place, document)
        tenant = session.get_one(Tenant, tenant_id)
        admission = SimulatedAdmission(tenant, simulated, full.attributes, parsed.attributes, facts, at)
    refusal = find_refusal(admission) if admission else None
    if refusal is not None and refusal is not POLICY_MISSING:
        decision = Decision(reason=refusal.reason, detail=refusal.detail)
        because = f"{REASONS[refusal.reason].title}: Admit rejects the request before the policy."
    elif document is None:
        decision = place.decide_without_policy(full.attributes.get("nas.vendor", ()))
        because = "The site has no published policy, so Admit denies all requests at this site."
    else:
        compiled = place.compile(document, replies=require_dictionary(session, tenant_id=tenant_id))
        decision, because = _decide_by_policy(compiled, full, facts, admission)
    return Simulation(
        decision=decision,
        why=because,
        policy=slug,
        version=version,
        site=place.slug,
        at=datetime.fromtimestamp(at, UTC),
        request=full.attributes,
        filled=tuple(sorted(filled)),
        notes=(*notes, *facts.notes),
        is_refused=refusal is not None,
    )


def _decide_by_policy(
    policy: Policy, request: PolicyRequest, facts: StoredFacts, admission: SimulatedAdmission | None
) -> tuple[Decision, str]:
    """Return the decision and its explanation. The checks after the policy apply unless `admission` is None."""
    decision = decide(policy, request, trace=True)
    because = explain_decision(decision)
    if decision.passphrase:
        facts.notes.extend(_passphrase_notes(decision, request, facts, filled=admission is not None))
    if admission is not None:
        reason = decision.reason
        # A request without packet attributes says nothing about the device, so the reason does not change.
        if admission.has_mac or any(name.startswith(RADIUS_PREFIX) for name in request.attributes):
            standing = admission.find_standing()
            reason = explain_denial(reason, method=admission.method, standing=standing, has_mac=admission.has_mac)
        decision = require_passphrase(
            replace(decision, reason=reason),
            has_passphrase=facts.passphrase,
            has_ssid=bool(request.attributes.get("ssid")),
        )
    hidden = tuple(template.hidden() for template in decision.passphrase)
    return replace(decision, reply=decision.reply + hidden), because


def _passphrase_notes(decision: Decision, request: PolicyRequest, facts: StoredFacts, *, filled: bool) -> Iterator[str]:
    if filled and not facts.passphrase:
        yield "Neither the endpoint nor its groups have a passphrase. So Admit rejects real logins (no-passphrase)."
    if any(each.encoding == "pmk" for each in decision.passphrase) and not request.attributes.get("ssid"):
        yield "The passphrase needs the SSID, but the request has none. So Admit rejects real logins without an SSID."


def _find_in_force(
    session: Session, tenant_id: TenantId, policy_id: UUID | None
) -> tuple[str, int | None, object | None]:
    """Return slug, version and document of a site's policy; the document is None if no version is published."""
    policy = next((each for each in list_policies(session, tenant_id=tenant_id) if each.id == policy_id), None)
    if policy is None or policy.published_version is None:
        return policy.slug if policy else "", None, None
    stored = require_version(session, tenant_id=tenant_id, slug=policy.slug, number=policy.published_version)
    return policy.slug, stored.number, stored.document


def _parse_request(request: object, at: int, mistakes: list[tuple[str, DocumentMistake]]) -> PolicyRequest | None:
    try:
        return parse_request(request, at=at)
    except RequestErrors as errors:
        mistakes.extend((REQUEST_SIDE, mistake) for mistake in errors.mistakes)
        return None


def _collect_policy_mistakes(
    session: Session, tenant_id: TenantId, document: object, mistakes: list[tuple[str, DocumentMistake]]
) -> None:
    try:
        check_document(session, tenant_id=tenant_id, document=document)
    except InvalidPolicy as errors:
        mistakes.extend((POLICY_SIDE, mistake) for mistake in errors.mistakes)


class _PacketAndNas(NamedTuple):
    values: Mapping[str, FactValues]
    # Site of the NAS; None if the NAS has no site, or if the request names no NAS.
    site: Site | None
    # Whether the NAS has no site: it is not registered, and the tenant has no default site.
    is_unplaced: bool = False


def _find_packet_and_nas(
    session: Session, tenant_id: TenantId, parsed: PolicyRequest, notes: list[str]
) -> _PacketAndNas:
    """Return attributes that follow from the packet and from the stored NAS, and the site of the NAS."""
    stated = parsed.attributes
    derived = packet_facts(stated, session.get_one(Tenant, tenant_id).realms)
    known = {**derived, **stated}
    if known.keys().isdisjoint(("nas.identifier", "nas.address", "nas.name")):
        return _PacketAndNas(derived, None)
    nas = find_nas(session, tenant_id=tenant_id, request=known, notes=notes)
    if nas is None:
        default = sites.get_default(session, tenant_id=tenant_id)
        return _PacketAndNas(derived, default, is_unplaced=default is None)
    return _PacketAndNas({**derived, **nas_values(nas)}, session.get_one(Site, nas.site_id))


def _load_facts(session: Session, tenant_id: TenantId, known: Mapping[str, FactValues], at: int) -> StoredFacts:
    mac, user, identity, method = (
        next(iter(known.get(name, ())), "") for name in ("mac", "user.name", "identity", "method")
    )
    if not user and method in USER_METHODS:
        user = identity
    named = "" if method == "mab" else str(identity)
    return load_stored_facts(session, tenant_id=tenant_id, mac=str(mac), user=str(user), identity=named, at=at)


def simulation_row(simulation: Simulation) -> dict[str, Any]:
    """Return the simulation for JSON."""
    decision = simulation.decision
    return {
        "verdict": decision.verdict,
        # Whether the device is admitted; in monitor mode always.
        "permitted": decision.permitted,
        "monitored": bool(decision.monitored),
        "monitored_by": decision.monitored,
        "reason": decision.reason,
        "detail": decision.detail,
        "rule": decision.rule_id,
        "rule_name": decision.rule_name,
        "vlan": decision.vlan,
        "reply": reply_rows(decision.reply),
        "pools": pool_rows(decision.pools),
        "why": simulation.why,
        "trace": trace_rows(decision),
        "policy": simulation.policy,
        "version": simulation.version,
        "site": simulation.site,
        "at": simulation.at.isoformat(),
        "request": {name: list(values) for name, values in simulation.request.items()},
        "filled": list(simulation.filled),
        "notes": list(simulation.notes),
    }


def recorded_row(recorded: LoggedDecision) -> dict[str, Any]:
    """Return a recorded decision for JSON."""
    log = recorded.log
    return {
        "verdict": recorded.verdict,
        "permitted": log.permitted,
        "reason": log.reason,
        "rule": log.rule_id,
        "vlan": log.vlan,
        "policy_version": log.policy_version or None,
    }
