"""Simulation: what a policy answers to one request that nobody has made, and why."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy.orm import Session

from nac.clock import epoch_seconds
from nac.decisions.service import LoggedDecision
from nac.engine import Decision, Mistake, Request, RequestErrors, decide, read_request
from nac.engine.mistakes import mistakes_told
from nac.errors import InvalidInput
from nac.ids import TenantId
from nac.models import Site, Tenant
from nac.policies.document_checks import InvalidPolicy, check_document, require_dictionary
from nac.policies.explanation import explain_decision, trace_rows
from nac.policies.facts import FactValues, StoredFacts, find_nas, load_stored_facts, nas_values
from nac.policies.json_rows import pool_rows, reply_rows
from nac.policies.packet_facts import packet_facts, use_rule_names
from nac.policies.service import find_policy, list_policies, require_version
from nac.policies.site_context import NO_SITE, build_site_context
from nac.sites import service as sites

# By these no user gives a password, whatever name the device states.
_DEVICE_METHODS = frozenset(("", "mab", "eap-tls"))
# Both may come with thousands of mistakes; the sides that they are on are told apart by these.
REQUEST_SIDE, POLICY_SIDE = "request", "policy"


class InvalidSimulation(InvalidInput):
    """The request or the policy has mistakes."""

    def __init__(self, mistakes: list[tuple[str, Mistake]]) -> None:
        """(REQUEST or POLICY, mistake) of each."""
        super().__init__("; ".join(f"{side}: {mistake}" for side, mistake in mistakes))
        self.mistakes = tuple(mistakes)

    @property
    def members(self) -> Mapping[str, Any]:
        placed = [
            Mistake(".".join(filter(None, (side, mistake.place))), mistake.message) for side, mistake in self.mistakes
        ]
        return mistakes_told("What was given", placed)


@dataclass(frozen=True, slots=True)
class Simulation:
    # With its trace.
    decision: Decision
    why: str
    # "" for a document that is no version of a policy.
    policy: str
    version: int | None
    # Slug; "" for none: UTC, and the policy's own fallback.
    site: str
    at: datetime
    request: Mapping[str, FactValues]
    # Attributes of it that were not given but found in the database.
    filled: tuple[str, ...]
    notes: tuple[str, ...]


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
    """What is answered to `request` ({attribute: value or [values]}) at the time `at` (epoch seconds; now).

    By `document` or, without one, the version of policy `slug` that is in force (the newest where none is); with
    neither by what decides at the site or, without a site, by the tenant's only policy. A site's time zone and
    fallback apply. With `fill`, what follows from the packet and what is stored about the NAS, the endpoint of `mac`
    and the user of `user.name` is added where the request does not say it; without `site`, that of the NAS counts.
    Raises InvalidSimulation with every mistake.
    """
    at = epoch_seconds() if at is None else at
    mistakes: list[tuple[str, Mistake]] = []
    asked = _parse_request(use_rule_names(request), at, mistakes)
    notes: list[str] = []
    found = _find_packet_and_nas(session, tenant_id, asked, notes) if asked and fill else _PacketAndNas({}, None)
    where = sites.require_by_slug(session, tenant_id=tenant_id, slug=site) if site else found.site
    place = build_site_context(where) if where else NO_SITE
    version = None
    if document is None and (slug or where is None):
        policy = find_policy(session, tenant_id=tenant_id, slug=slug)
        slug, version = policy.slug, policy.published_version
        stored = require_version(session, tenant_id=tenant_id, slug=slug, number=version)
        document, version = stored.document, stored.number
        if stored.status != "published":
            notes.append(f"Version {version} is not in force: live, this policy denies everything.")
    elif document is None and where is not None:
        slug, version, document = _find_in_force(session, tenant_id, where.policy_id)
    if document is not None:
        _collect_policy_mistakes(session, tenant_id, document, mistakes)
    if mistakes or asked is None:
        raise InvalidSimulation(mistakes)
    known = {**found.values, **asked.attributes}
    facts = _load_facts(session, tenant_id, known, at) if fill else StoredFacts()
    if place.name and fill:
        facts.values["site.name"] = (place.name,)
    filled = {name: value for name, value in {**facts.values, **found.values}.items() if name not in asked.attributes}
    full = Request({**asked.attributes, **filled}, at)
    if document is None:
        decision = place.decide_without_policy(full.attributes.get("nas.vendor", ()))
        because = "No policy is in force at the site, so it denies everything."
    else:
        replies = require_dictionary(session, tenant_id=tenant_id)
        decision = decide(place.compile(document, replies=replies), full, trace=True)
        because = explain_decision(decision)
    if decision.passphrase:
        facts.notes.extend(_passphrase_notes(decision, full, facts, filled=fill))
        decision = replace(decision, reply=(*decision.reply, *(each.hidden() for each in decision.passphrase)))
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
    )


def _passphrase_notes(decision: Decision, request: Request, facts: StoredFacts, *, filled: bool) -> Iterator[str]:
    if filled and not facts.passphrase:
        yield "No passphrase is stored with the endpoint or its groups: live, the device is rejected (no-passphrase)."
    if any(each.encoding == "pmk" for each in decision.passphrase) and not request.attributes.get("ssid"):
        yield "The key of the passphrase is made of the SSID, which the request does not name: live, it is rejected."


def _find_in_force(
    session: Session, tenant_id: TenantId, policy_id: UUID | None
) -> tuple[str, int | None, object | None]:
    """Slug, version and document of what decides at a site; no document where nothing does."""
    policy = next((each for each in list_policies(session, tenant_id=tenant_id) if each.id == policy_id), None)
    if policy is None or policy.published_version is None:
        return policy.slug if policy else "", None, None
    stored = require_version(session, tenant_id=tenant_id, slug=policy.slug, number=policy.published_version)
    return policy.slug, stored.number, stored.document


def _parse_request(request: object, at: int, mistakes: list[tuple[str, Mistake]]) -> Request | None:
    try:
        return read_request(request, at=at)
    except RequestErrors as errors:
        mistakes.extend((REQUEST_SIDE, mistake) for mistake in errors.mistakes)
        return None


def _collect_policy_mistakes(
    session: Session, tenant_id: TenantId, document: object, mistakes: list[tuple[str, Mistake]]
) -> None:
    try:
        check_document(session, tenant_id=tenant_id, document=document)
    except InvalidPolicy as errors:
        mistakes.extend((POLICY_SIDE, mistake) for mistake in errors.mistakes)


class _PacketAndNas(NamedTuple):
    values: Mapping[str, FactValues]
    # Of the NAS; None where the request names none.
    site: Site | None


def _find_packet_and_nas(session: Session, tenant_id: TenantId, asked: Request, notes: list[str]) -> _PacketAndNas:
    """What follows from the packet, and what is stored of the NAS that it comes from."""
    given = asked.attributes
    derived = packet_facts(given, session.get_one(Tenant, tenant_id).realms)
    known = {**derived, **given}
    if known.keys().isdisjoint(("nas.identifier", "nas.address", "nas.name")):
        return _PacketAndNas(derived, None)
    nas = find_nas(session, tenant_id=tenant_id, request=known, notes=notes)
    if nas is None:
        return _PacketAndNas(derived, sites.get_default(session, tenant_id=tenant_id))
    return _PacketAndNas({**derived, **nas_values(nas)}, session.get_one(Site, nas.site_id))


def _load_facts(session: Session, tenant_id: TenantId, known: Mapping[str, FactValues], at: int) -> StoredFacts:
    mac, user, identity, method = (
        next(iter(known.get(name, ())), "") for name in ("mac", "user.name", "identity", "method")
    )
    if not user and method not in _DEVICE_METHODS:
        user = identity
    named = "" if method == "mab" else str(identity)
    return load_stored_facts(session, tenant_id=tenant_id, mac=str(mac), user=str(user), identity=named, at=at)


def simulation_row(simulation: Simulation) -> dict[str, Any]:
    """For JSON."""
    decision = simulation.decision
    return {
        "verdict": decision.verdict,
        # Whether it would be admitted: in monitor mode, whatever the verdict.
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
    """What was answered to a request that was made, for JSON."""
    log = recorded.log
    return {
        "verdict": recorded.verdict,
        "permitted": log.permitted,
        "reason": log.reason,
        "rule": log.rule_id,
        "vlan": log.vlan,
        "policy_version": log.policy_version or None,
    }
