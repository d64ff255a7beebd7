"""Simulation: what a policy answers to one request that nobody has made, and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from nac.clock import epoch_seconds
from nac.engine import Decision, Mistake, Request, RequestErrors, decide, read_request
from nac.errors import InvalidInput
from nac.ids import TenantId
from nac.policies.checking import InvalidPolicy, check_document, require_dictionary
from nac.policies.explaining import trace_rows, why
from nac.policies.facts import Facts, Values, stored_facts
from nac.policies.places import NOWHERE, place_of
from nac.policies.rendering import reply_rows
from nac.policies.service import find_policy, list_policies, require_version
from nac.sites import service as sites

# Both may come with thousands of mistakes; the sides that they are on are told apart by these.
REQUEST, POLICY = "request", "policy"


class InvalidSimulation(InvalidInput):
    """The request or the policy has mistakes."""

    def __init__(self, mistakes: list[tuple[str, Mistake]]) -> None:
        """(REQUEST or POLICY, mistake) of each."""
        super().__init__("; ".join(f"{side}: {mistake}" for side, mistake in mistakes))
        self.mistakes = tuple(mistakes)


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
    request: Mapping[str, Values]
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
    fallback apply. With `fill`, what is stored about the endpoint of `mac` and the user of `user.name` is added where
    the request does not say it. Raises InvalidSimulation with every mistake.
    """
    at = epoch_seconds() if at is None else at
    where = sites.require_by_slug(session, tenant_id=tenant_id, slug=site) if site else None
    place = place_of(where) if where else NOWHERE
    notes: list[str] = []
    version = None
    if document is None and (slug or where is None):
        policy = find_policy(session, tenant_id=tenant_id, slug=slug)
        slug, version = policy.slug, policy.published_version
        stored = require_version(session, tenant_id=tenant_id, slug=slug, number=version)
        document, version = stored.document, stored.number
        if stored.status != "published":
            notes.append(f"Version {version} is not in force: live, this policy denies everything.")
    elif document is None and where is not None:
        slug, version, document = _in_force(session, tenant_id, where.policy_id)
    mistakes: list[tuple[str, Mistake]] = []
    asked = _read(request, at, mistakes)
    if document is not None:
        _check(session, tenant_id, document, mistakes)
    if mistakes or asked is None:
        raise InvalidSimulation(mistakes)
    found = _stored(session, tenant_id, asked) if fill else Facts()
    if place.name and fill:
        found.values["site.name"] = (place.name,)
    filled = {name: value for name, value in found.values.items() if name not in asked.attributes}
    full = Request({**asked.attributes, **filled}, at)
    if document is None:
        decision, because = Decision(reason="no-policy"), "No policy is in force at the site, so it denies everything."
    else:
        replies = require_dictionary(session, tenant_id=tenant_id)
        decision = decide(place.compile(document, replies=replies), full, trace=True)
        because = why(decision)
    return Simulation(
        decision=decision,
        why=because,
        policy=slug,
        version=version,
        site=site,
        at=datetime.fromtimestamp(at, UTC),
        request=full.attributes,
        filled=tuple(sorted(filled)),
        notes=(*notes, *found.notes),
    )


def _in_force(session: Session, tenant_id: TenantId, policy_id: UUID | None) -> tuple[str, int | None, object | None]:
    """Slug, version and document of what decides at a site; no document where nothing does."""
    policy = next((each for each in list_policies(session, tenant_id=tenant_id) if each.id == policy_id), None)
    if policy is None or policy.published_version is None:
        return policy.slug if policy else "", None, None
    stored = require_version(session, tenant_id=tenant_id, slug=policy.slug, number=policy.published_version)
    return policy.slug, stored.number, stored.document


def _read(request: object, at: int, mistakes: list[tuple[str, Mistake]]) -> Request | None:
    try:
        return read_request(request, at=at)
    except RequestErrors as errors:
        mistakes.extend((REQUEST, mistake) for mistake in errors.mistakes)
        return None


def _check(session: Session, tenant_id: TenantId, document: object, mistakes: list[tuple[str, Mistake]]) -> None:
    try:
        check_document(session, tenant_id=tenant_id, document=document)
    except InvalidPolicy as errors:
        mistakes.extend((POLICY, mistake) for mistake in errors.mistakes)


def _stored(session: Session, tenant_id: TenantId, asked: Request) -> Facts:
    mac, user = (next(iter(asked.attributes.get(name, ())), "") for name in ("mac", "user.name"))
    return stored_facts(session, tenant_id=tenant_id, mac=str(mac), user=str(user), at=asked.at)


def simulation_row(simulation: Simulation) -> dict[str, Any]:
    """For JSON."""
    decision = simulation.decision
    return {
        "verdict": decision.verdict,
        "reason": decision.reason,
        "rule": decision.rule_id,
        "rule_name": decision.rule_name,
        "vlan": decision.vlan,
        "reply": reply_rows(decision.reply),
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
