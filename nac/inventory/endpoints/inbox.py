"""The inbox of discovered endpoints: functions to approve, block or ignore one or many endpoints."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.inventory.endpoints import enrichment, repository
from nac.inventory.endpoints.repository import ORDERS, EndpointCriteria, EndpointWithSighting
from nac.inventory.endpoints.service import EndpointNotFound, require_not_random
from nac.inventory.groups import ENDPOINT_GROUPS
from nac.kit.advice import Advice
from nac.kit.errors import InvalidInput, MistakeCollector
from nac.kit.ids import TenantId
from nac.kit.mac import display_mac
from nac.kit.validation import require_future, require_mac
from nac.models.endpoint import EndpointStatus
from nac.sessions.coa_requests import request_queue
from nac.tenancy import trial_limits

InboxAction = Literal["approve", "block", "ignore"]
_STATUS_BY_ACTION: dict[InboxAction, EndpointStatus] = {"approve": "active", "block": "blocked", "ignore": "ignored"}
# Maximum number of endpoints in one transaction. A cell applies about 10,000 changes per second to its replica.
MAX_CLASSIFIED = 10_000


@dataclass(frozen=True, slots=True)
class InboxDecision:
    action: InboxAction
    # Groups that the approved endpoints join, and end of the approval. Only for the action "approve".
    groups: tuple[str, ...] = ()
    valid_until: datetime | None = None
    allow_random: bool = False


def classify_endpoints(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    wanted: EndpointCriteria,
    decision: InboxDecision,
    dry_run: bool = False,
) -> Sequence[EndpointWithSighting]:
    """Classify all discovered endpoints that match `wanted`. After an error, no endpoint is classified.

    If `wanted` contains MAC addresses, it can also match ignored endpoints. Raises EndpointNotFound if an address
    matches no endpoint. Raises RandomAddress if the decision would approve a random address without `allow_random`.
    Raises SeveralMistakes for several mistakes. Returns the classified endpoints with their sightings. With `dry_run`,
    changes nothing, and returns the endpoints that match.
    """
    found = _require_classifiable(session, tenant_id, wanted, decision)
    if dry_run or not found:
        return found
    for endpoint, _ in found:
        endpoint.status = _STATUS_BY_ACTION[decision.action]
        endpoint.valid_until = decision.valid_until
    member_ids = [endpoint.id for endpoint, _ in found]
    ENDPOINT_GROUPS.join(session, tenant_id=tenant_id, member_ids=member_ids, names=decision.groups)
    trial_limits.require_endpoint_limit(session, tenant_id=tenant_id)
    macs = [endpoint.mac for endpoint, _ in found]
    enrichment.enqueue(session, tenant_id=tenant_id, macs=macs)
    if decision.action == "block":
        request_queue.queue_block_disconnects(session, tenant_id=tenant_id, macs=macs, requested_by=actor)
    audit.append(
        session,
        actor=actor,
        action=f"endpoint.{decision.action}",
        target=display_mac(macs[0]) if len(macs) == 1 else f"{len(macs)} endpoints",
        tenant_id=tenant_id,
        after={
            "macs": [display_mac(mac) for mac in macs],
            "groups": sorted(decision.groups),
            "valid_until": decision.valid_until and decision.valid_until.isoformat(),
            "allow_random": decision.allow_random,
        },
    )
    return found


def _require_classifiable(
    session: Session, tenant_id: TenantId, wanted: EndpointCriteria, decision: InboxDecision
) -> Sequence[EndpointWithSighting]:
    """Return the endpoints to classify. Raises one error that contains all mistakes."""
    mistakes = MistakeCollector()
    macs: list[str] = []
    found: Sequence[EndpointWithSighting] = ()
    for mac in wanted.macs:
        with mistakes.noted():
            macs.append(require_mac(mac))
    if macs or not wanted.macs:
        with mistakes.noted():
            found = _find_in_inbox(session, tenant_id, wanted, tuple(macs))
    approved = {*macs, *(endpoint.mac for endpoint, _ in found)} if decision.action == "approve" else ()
    with mistakes.noted():
        require_not_random(sorted(approved), allow_random=decision.allow_random)
    with mistakes.noted():
        ENDPOINT_GROUPS.join(session, tenant_id=tenant_id, member_ids=(), names=decision.groups)
    with mistakes.noted():
        require_future(decision.valid_until)
    with mistakes.noted():
        if decision.action != "approve" and (decision.groups or decision.valid_until):
            raise InvalidInput(
                "Only the action `approve` accepts groups and an end (valid_until).",
                place="groups" if decision.groups else "valid_until",
                remedy="Remove the groups and the end.",
            )
    mistakes.refuse()
    return found


def _find_in_inbox(
    session: Session, tenant_id: TenantId, wanted: EndpointCriteria, macs: tuple[str, ...]
) -> Sequence[EndpointWithSighting]:
    statuses = ("discovered", "ignored") if macs else ("discovered",)
    narrowed = EndpointCriteria(
        macs=macs,
        statuses=statuses,
        vendor=wanted.vendor,
        profile=wanted.profile,
        text=wanted.text,
        site=wanted.site,
        seen_since=wanted.seen_since,
        random=wanted.random,
    )
    found = repository.list_page(session, tenant_id, narrowed, span=ORDERS.first(MAX_CLASSIFIED + 1), lock=True)
    if len(found) > MAX_CLASSIFIED:
        raise InvalidInput(
            f"The filter matches more than {MAX_CLASSIFIED} endpoints.",
            place="filter",
            remedy="Use several narrower filters, and send one request for each filter.",
        )
    if missing := sorted(set(macs) - {endpoint.mac for endpoint, _ in found}):
        raise EndpointNotFound(
            f"Not in the inbox: {', '.join(map(display_mac, missing))}.",
            place="mac",
            remedy=Advice("List the inbox", "listDiscoveredEndpoints"),
        )
    return found
