"""Replay: decides recorded requests with a policy document, and lists the decisions that differ.

A replay uses the engine of the cells. The replay compares verdict, rule, VLAN and monitor mode, but no other reply
attributes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from sqlalchemy.orm import Session

from nac.engine import PolicyRequest, decide
from nac.kit.clock import utc_now
from nac.kit.errors import InvalidInput
from nac.kit.ids import TenantId
from nac.kit.mac import display_mac
from nac.models import Site
from nac.policies import repository
from nac.policies.comparison import ReplayBaseline, ReplayComparison, SiteDecider, UnrecordedAttribute
from nac.policies.differences import DifferenceExample, DifferenceTally, ReplayDifference, digest_changes
from nac.policies.document_checks import InvalidPolicy, check_document
from nac.policies.explanation import explain_decision
from nac.policies.site_context import build_site_context
from nac.sessions.decisions import service as decisions
from nac.sessions.decisions.recorded_requests import RecordedRequests, from_microseconds
from nac.tenancy import sites

MAX_DAYS = 366
EXAMPLES_PER_DIFFERENCE = 3
# Limit of listed groups of differences. The smallest groups are counted but not listed.
MAX_LISTED_DIFFERENCES = 200


@dataclass(frozen=True, slots=True)
class Replay:
    since: datetime
    until: datetime
    # Slugs of the sites whose requests were replayed.
    sites: tuple[str, ...]
    against: ReplayBaseline
    # Number of recorded requests at these sites. Each replayed request is `unchanged` or `changed`.
    total: int
    unchanged: int
    changed: int
    # Number of requests that could not be replayed, by reject reason or OLDER_FORMAT.
    not_replayable: Mapping[str, int]
    # Number of rejects that the failure limiter did not record individually.
    suppressed: int
    # Largest group first, at most MAX_LISTED_DIFFERENCES groups.
    differences: tuple[ReplayDifference, ...]
    # Number of all groups of differences, including groups that are not listed.
    groups: int
    unrecorded: tuple[UnrecordedAttribute, ...]
    # Identifies this draft and its differences. A person sends the digest to acknowledge the differences.
    digest: str


def replay_policy(
    session: Session,
    *,
    tenant_id: TenantId,
    document: object,
    policy_id: UUID | None,
    days: int,
    site: str = "",
    against: ReplayBaseline = "recorded",
    until: datetime | None = None,
    report: Callable[[int], None] | None = None,
) -> Replay:
    """Decide the recorded requests of the last `days` before `until` (default now) again, with `document`.

    The requests are from the sites of the policy `policy_id`. With `site` (a slug), the requests are only from this
    site, even if it uses another policy. Without both, the requests are from all sites. If `against` is "published",
    the replay compares with the decisions of the published version at each site, otherwise with the recorded decisions.
    Calls `report` with the number of requests replayed so far. Raises InvalidPolicy.
    """
    if not 1 <= days <= MAX_DAYS:
        raise InvalidInput(f"Invalid number of days: {days}.", place="days", remedy=f"Use 1 to {MAX_DAYS} days.")
    until = until or utc_now()
    since = until - timedelta(days=days)
    check_document(session, tenant_id=tenant_id, document=document)
    chosen = _select_sites(session, tenant_id, policy_id, site)
    current = repository.get_published_documents(session, tenant_id) if against == "published" else None
    deciders = {str(each.id): _build_decider(each, document, current) for each in chosen}
    run = ReplayComparison(deciders, against)
    requests = RecordedRequests(
        tenant_id=tenant_id, since=since, until=until, site_ids=[each.id for each in chosen], names=run.names
    )
    if chosen:
        run.read(session, requests, report=report)
    tallies = run.list_differing()
    listed = tallies[:MAX_LISTED_DIFFERENCES]
    examples = _examples(session, tenant_id, listed, deciders)
    return Replay(
        since=since,
        until=until,
        sites=tuple(each.slug for each in chosen),
        against=against,
        total=run.total,
        unchanged=run.unchanged,
        changed=sum(tally.requests for tally in tallies),
        not_replayable=dict(run.not_replayable.most_common()),
        suppressed=run.suppressed,
        differences=tuple(
            ReplayDifference(tally.before, tally.after, tally.requests, len(tally.devices), found)
            for tally, found in zip(listed, examples, strict=True)
        ),
        groups=len(tallies),
        unrecorded=run.unrecorded(),
        digest=digest_changes(document, [(tally.before, tally.after) for tally in tallies]),
    )


def _select_sites(session: Session, tenant_id: TenantId, policy_id: UUID | None, slug: str) -> Sequence[Site]:
    if slug:
        return [sites.require_by_slug(session, tenant_id=tenant_id, slug=slug)]
    all_sites = sites.list_sites(session, tenant_id=tenant_id)
    return [site for site in all_sites if policy_id is None or site.policy_id == policy_id]


def _build_decider(site: Site, document: object, published: Mapping[UUID, object] | None) -> SiteDecider:
    place = build_site_context(site)
    draft = place.compile(document)
    in_force = published.get(site.policy_id) if published and site.policy_id else None
    if in_force is None:
        return SiteDecider(place, draft, None)
    try:
        return SiteDecider(place, draft, place.compile(in_force))
    except InvalidPolicy:
        # An earlier version of Admit published this policy, but no cell can load it. Such a policy must not block a
        # better policy.
        return SiteDecider(place, draft, None)


def _examples(
    session: Session, tenant_id: TenantId, tallies: Sequence[DifferenceTally], deciders: Mapping[str, SiteDecider]
) -> Iterator[tuple[DifferenceExample, ...]]:
    keys = [
        [(from_microseconds(at), number) for at, number in tally.examples(EXAMPLES_PER_DIFFERENCE)] for tally in tallies
    ]
    found = decisions.find_decisions(session, tenant_id=tenant_id, keys=[key for group in keys for key in group])
    for group in keys:
        yield tuple(_build_example(found[key], deciders) for key in group if key in found)


def _build_example(logged: decisions.LoggedDecision, deciders: Mapping[str, SiteDecider]) -> DifferenceExample:
    log = logged.log
    attributes = {name: tuple(values) for name, values in log.request.items()}
    request = PolicyRequest(attributes, int(log.at.timestamp()))
    decision = decide(deciders[str(log.site_id)].draft, request, trace=True)
    return DifferenceExample(
        at=log.at.astimezone(UTC).isoformat(),
        mac=display_mac(log.mac) if log.mac else "",
        identity=log.identity,
        nas=logged.nas,
        nas_port=log.nas_port,
        site=logged.site,
        why=explain_decision(decision),
    )
