"""New decisions about live sessions, with the checks and the engine of the cell.

Packet and credentials come from the recorded request. All other data is current, such as NAS, site, policy, endpoint,
user, certificate status and time.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, TypeVar
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.orm import Session

from nac.cellformat.class_attribute import parse_decided_at
from nac.cellformat.endpoint_facts import build_device_facts
from nac.cellformat.packet_values import Values
from nac.engine import Decision, Policy, PolicyRequest, decide
from nac.engine.admission import (
    POLICY_MISSING,
    Refusal,
    Standing,
    explain_denial,
    find_refusal,
    get_standing,
    require_passphrase,
)
from nac.engine.vendors import find_vendor
from nac.kit.ids import TenantId
from nac.models import PolicyVersion, Site, Tenant
from nac.policies import repository as policies
from nac.policies.differences import ComparedOutcome
from nac.policies.document_checks import InvalidPolicy
from nac.policies.facts import nas_values
from nac.policies.site_context import SiteContext, build_site_context
from nac.redecisions.certificate_trust import AuthorityUnclear
from nac.redecisions.current_facts import CurrentFacts, KnownEndpoint, KnownUser
from nac.redecisions.live_sessions import LiveSession, RecordedDecision, count_earlier, load_decisions


class CurrentPlace(NamedTuple):
    site: Site | None
    # The published document of the site's policy; None if no version is published.
    policy: object | None


class SessionAdmission:
    """Data about a session's request, as if the device sent the request now.

    `values` are the attributes that rules can use.
    """

    def __init__(
        self,
        recorded: RecordedDecision,
        values: dict[str, Values],
        place: CurrentPlace,
        current: CurrentFacts,
        now_seconds: int,
    ) -> None:
        """`values` are the recorded packet and credential attributes, and the current attributes of the NAS."""
        self.method, self.tls_version = recorded.method, recorded.tls_version
        self.place, self.values, self.now_seconds = place, values, now_seconds
        self.endpoint: KnownEndpoint | None = None
        self.standing: Standing = "unapproved"
        self._user: KnownUser | None = None
        self._recorded, self._current = recorded, current

    @property
    def tenant(self) -> Tenant:
        return self._current.tenant

    @property
    def mac(self) -> str:
        return str(next(iter(self.values.get("mac", ())), ""))

    def refuse_login(self) -> Refusal | None:
        """Return a reason if the certificate of the session is now invalid.

        Credentials other than certificates count as valid. Raises AuthorityUnclear.
        """
        if self.method != "eap-tls":
            return None
        serial, trust = self._recorded.certificate_serial, self._current.trust
        issuer = str(next(iter(self.values.get("certificate.issuer", ())), ""))
        reason = trust.refusal(issuer, serial, self.now_seconds)
        own = trust.get_own(serial)
        if own is not None and "certificate.profile" in self.values:
            self.values["certificate.profile"] = (own.profile,)
        return Refusal(reason) if reason else None

    def is_vouched_for(self) -> bool:
        return "user.source" in self.values

    def find_user(self) -> KnownUser | None:
        self._user = self._current.users.get(self._recorded.identity.casefold())
        return self._user

    def find_standing(self) -> Standing:
        self.endpoint = self._current.endpoints.get(self.mac)
        self.standing = get_standing(self.endpoint.record if self.endpoint else None, self.now_seconds)
        return self.standing

    def add_stored_values(self) -> None:
        """Add current attributes of the site, the endpoint and the tenant's own user."""
        if self.place.site is not None:
            self.values["site.name"] = (self.place.site.name,)
        if self._user is not None:
            self.values["user.name"] = (self._recorded.identity.casefold(),)
            self.values["user.group"] = self._user.groups
        known = self.standing == "approved"
        self.values["endpoint.known"] = (known,)
        if self.endpoint is not None:
            self.values |= build_device_facts(self.endpoint.record, self.now_seconds, known=known)


_log = logging.getLogger(__name__)
# Reasons why Admit cannot decide again about a session:
#   no-class           the NAS returned no Class of Admit, so the decision is unknown
#   no-decision        the auth log no longer has the decision
#   older-format       an older version of Admit recorded less data
#   not-recorded       the policy uses certificate fields that were not recorded
#   unreadable-policy  this version cannot read the published policy
#   fault              the stored data caused an error; see the worker's log
UndecidableReason = Literal["no-class", "no-decision", "older-format", "not-recorded", "unreadable-policy", "fault"]
JudgedAction = Literal["", "disconnect", "reauthenticate"]
_ENDPOINT_PREFIXES = ("endpoint.", "mdm.", "posture.")
_LOCATION_FACTS = frozenset(("site.name", "nas.name", "nas.vendor"))
_COUNT_FACTS = frozenset(("session.count.endpoint", "session.count.user"))
# Certificate fields that every decision with a certificate records. All other fields are recorded only if a policy
# uses them.
_ALWAYS_RECORDED = frozenset(
    (
        *(f"certificate.san.{kind}" for kind in ("dns", "email", "upn", "uri")),
        *(f"certificate.{name}" for name in ("eku", "common_name", "subject", "issuer", "serial", "profile")),
    )
)
_AGE_FACTS = frozenset(("certificate.age_days", "certificate.expires_in_days"))
_DAY_SECONDS = 86_400
# Limit of rows that can fail. If more rows fail, the rows are not the cause.
MAX_FAULTY = 10
_Row = TypeVar("_Row")
_Result = TypeVar("_Result")


class Judgement(NamedTuple):
    live: LiveSession
    # "" if the NAS needs no request.
    action: JudgedAction
    before: ComparedOutcome
    after: ComparedOutcome
    # Reason of the new decision: a code of nac.engine.reasons.
    reason: str
    # Name of the NAS, or its identifier if it is not registered.
    nas: str
    # Slug of the site; "" for none.
    site: str
    undecidable: UndecidableReason | None = None
    # Whether a request about the session is open or has just ended.
    is_requested: bool = False
    # Whether a step of the request's recipe is a Disconnect-Request.
    may_disconnect: bool = False


_NO_ANSWER = ComparedOutcome("", "", "")


class _UndecidableSession(Exception):
    def __init__(self, why: UndecidableReason) -> None:
        super().__init__(why)
        self.why = why


def _build_faulty_judgement(live: LiveSession) -> Judgement:
    _log.exception("session %d cannot be decided", live.id)
    return Judgement(live, "", _NO_ANSWER, _NO_ANSWER, "", live.nas_key.partition("|")[0], "", "fault")


def _may_disconnect(action: JudgedAction, vendor: str) -> bool:
    return bool(action) and any(step.send == "disconnect" for step in find_vendor(vendor).recipe.steps[action])


class Judge:
    """Decides again about live sessions of one tenant.

    Use one Judge for only a few pages of sessions, because it reads the policies only once.
    """

    def __init__(self, session: Session, tenant_id: TenantId, drafts: Mapping[UUID, object] | None = None) -> None:
        """`drafts` (documents by policy id) replace the published documents of these policies."""
        self._session = session
        self._tenant_id = tenant_id
        self._documents = {**policies.get_published_documents(session, tenant_id), **(drafts or {})}
        rows = session.scalars(
            select(Site).where(Site.tenant_id == tenant_id).execution_options(populate_existing=True)
        )
        self._sites = {site.id: site for site in rows}
        self._places: dict[UUID, SiteContext] = {site.id: build_site_context(site) for site in self._sites.values()}
        self._compiled: dict[tuple[UUID, UUID], Policy] = {}
        self._read_by: dict[tuple[UUID | None, int], frozenset[str]] = {}

    def judge(self, sessions: Sequence[LiveSession], *, at: int) -> list[Judgement]:
        """Decide again about these sessions; `at` is in epoch seconds.

        Raises an error only if more than MAX_FAULTY sessions fail.
        """
        return isolate_failing_rows(
            self._session, sessions, lambda some: self._judge(some, at), _build_faulty_judgement
        )

    def _judge(self, sessions: Sequence[LiveSession], at: int) -> list[Judgement]:
        recorded = load_decisions(self._session, self._tenant_id, sessions)
        knowledge = CurrentFacts(self._session, self._tenant_id, recorded.values())
        counts = self._counts(recorded)
        return [self._judge_one(each, recorded.get(each.id), knowledge, counts, at) for each in sessions]

    def _judge_one(
        self,
        live: LiveSession,
        recorded: RecordedDecision | None,
        knowledge: CurrentFacts,
        counts: Mapping[int, tuple[int, int]],
        at: int,
    ) -> Judgement:
        nas = knowledge.nas_of(recorded) if recorded else None
        site_id = nas.site_id if nas else knowledge.default_site_id
        site = self._sites.get(site_id) if recorded and site_id else None
        nas_name = nas.name if nas else live.nas_key.partition("|")[0] or live.nas_address
        slug = site.slug if site else ""
        try:
            if recorded is None:
                raise _UndecidableSession(
                    "no-class" if not live.mac or parse_decided_at(live.class_) is None else "no-decision"
                )
            facts = _lasting_facts(recorded)
            if nas is not None:
                facts |= nas_values(nas)
            after = self._decide(live, recorded, facts, site, knowledge, counts, at)
        except _UndecidableSession as exc:
            return Judgement(live, "", _NO_ANSWER, _NO_ANSWER, "", nas_name, slug, exc.why)
        before = ComparedOutcome(recorded.verdict, recorded.rule_id, recorded.vlan, recorded.monitored)
        # If the device logged in after the last request to the NAS, that request no longer matters.
        is_requested = live.requested_at is not None and recorded.at < live.requested_at
        action = "" if is_requested else _required_action(recorded, after)
        cuts = _may_disconnect(action, nas.vendor if nas else "")
        return Judgement(
            live, action, before, ComparedOutcome.of(after), after.reason, nas_name, slug, None, is_requested, cuts
        )

    def _decide(
        self,
        live: LiveSession,
        recorded: RecordedDecision,
        values: dict[str, Values],
        site: Site | None,
        current: CurrentFacts,
        counts: Mapping[int, tuple[int, int]],
        at: int,
    ) -> Decision:
        document = self._documents.get(site.policy_id) if site and site.policy_id else None
        admission = SessionAdmission(recorded, values, CurrentPlace(site, document), current, at)
        try:
            refusal = find_refusal(admission)
        except AuthorityUnclear as exc:
            raise _UndecidableSession("not-recorded") from exc
        if refusal is POLICY_MISSING and site is not None:
            return self._places[site.id].decide_without_policy(values.get("nas.vendor", ()))
        if refusal is not None or site is None or site.policy_id is None:
            return Decision(reason=(refusal or POLICY_MISSING).reason)
        policy = self._policy(site, site.policy_id)
        admission.add_stored_values()
        self._add_certificate_fields(values, policy, recorded, current, at)
        of_device, of_user = counts.get(live.id, (0, 0))
        values["session.count.endpoint"] = (of_device,)
        if recorded.method != "mab" and recorded.identity:
            values["session.count.user"] = (of_user,)
        decision = decide(policy, PolicyRequest(values, at))
        reason = explain_denial(
            decision.reason, method=recorded.method, standing=admission.standing, has_mac=bool(admission.mac)
        )
        endpoint = admission.endpoint
        decision = require_passphrase(
            replace(decision, reason=reason),
            has_passphrase=endpoint is not None and endpoint.has_passphrase,
            has_ssid=bool(values.get("ssid")),
        )
        return replace(decision, reply=(*decision.reply, *(template.hidden() for template in decision.passphrase)))

    def _policy(self, site: Site, policy_id: UUID) -> Policy:
        place = self._places[site.id]
        key = site.id, policy_id
        policy = self._compiled.get(key)
        if policy is None:
            try:
                policy = self._compiled[key] = place.compile(self._documents[policy_id])
            except InvalidPolicy as exc:
                raise _UndecidableSession("unreadable-policy") from exc
        return policy

    def _counts(self, found: Mapping[int, RecordedDecision]) -> Mapping[int, tuple[int, int]]:
        """For each session, count the earlier sessions of its device and of its user.

        Returns {} if no policy uses these counts.
        """
        if not any(self._asks_for_counts(site) for site in self._sites.values()):
            return {}
        # The cell counts sessions by the name in the tunnel or the certificate, so use that name.
        names = {number: str(next(iter(each.request.get("identity", ())), "")) for number, each in found.items()}
        return count_earlier(self._session, self._tenant_id, names)

    def _asks_for_counts(self, site: Site) -> bool:
        if site.policy_id is None or site.policy_id not in self._documents:
            return False
        try:
            return not _COUNT_FACTS.isdisjoint(self._policy(site, site.policy_id).reads)
        except _UndecidableSession:
            return False

    def _add_certificate_fields(
        self, facts: dict[str, Values], policy: Policy, recorded: RecordedDecision, knowledge: CurrentFacts, at: int
    ) -> None:
        """Add to `facts` the certificate fields that the policy uses.

        Raises _UndecidableSession if the policy uses fields that were not recorded.
        """
        if recorded.method != "eap-tls":
            return
        names = {name for name in policy.reads if name.startswith("certificate.") and name not in _ALWAYS_RECORDED}
        if not names:
            return
        own = knowledge.trust.get_own(recorded.certificate_serial)
        if own is not None:
            facts["certificate.age_days"] = ((at - int(own.not_before.timestamp())) // _DAY_SECONDS,)
            facts["certificate.expires_in_days"] = ((int(own.not_after.timestamp()) - at) // _DAY_SECONDS,)
            names -= _AGE_FACTS
        if names & _AGE_FACTS or names - self._attributes_read_by(recorded):
            raise _UndecidableSession("not-recorded")

    def _attributes_read_by(self, recorded: RecordedDecision) -> frozenset[str]:
        """Return the attributes that the policy version of the recorded decision uses."""
        key = recorded.policy_id, recorded.policy_version
        if key not in self._read_by:
            version = self._session.scalar(
                select(PolicyVersion).where(
                    PolicyVersion.tenant_id == self._tenant_id,
                    PolicyVersion.policy_id == recorded.policy_id,
                    PolicyVersion.number == recorded.policy_version,
                )
            )
            try:
                self._read_by[key] = SiteContext().compile(version.document).reads if version else frozenset()
            except InvalidPolicy:
                self._read_by[key] = frozenset()
        return self._read_by[key]


def isolate_failing_rows(
    session: Session,
    rows: Sequence[_Row],
    work: Callable[[Sequence[_Row]], list[_Result]],
    faulty: Callable[[_Row], _Result],
) -> list[_Result]:
    """Run `work` on `rows`.

    If `work` fails, halve the batch to find the failing rows, and call `faulty` for each failing row. Raises the error
    if more than MAX_FAULTY rows fail. Raises errors of the connection to PostgreSQL immediately.
    """
    failures = 0

    def attempt(some: Sequence[_Row]) -> list[_Result]:
        nonlocal failures
        try:
            with session.begin_nested():
                return work(some)
        except (OperationalError, InterfaceError):
            raise
        except Exception:  # house-rule: one failing row must not block all others
            if len(some) > 1:
                middle = len(some) // 2
                return attempt(some[:middle]) + attempt(some[middle:])
            failures += 1
            if failures > MAX_FAULTY:
                raise
            return [faulty(some[0])]

    return attempt(rows) if rows else []


def _lasting_facts(recorded: RecordedDecision) -> dict[str, Values]:
    """Return the recorded attributes that come from the packet and the credentials.

    Raises _UndecidableSession if the decision was recorded without these attributes.
    """
    if "method" not in recorded.request:
        raise _UndecidableSession("older-format")
    of_directory = "user.source" in recorded.request
    return {
        name: tuple(values)
        for name, values in recorded.request.items()
        if name not in _LOCATION_FACTS
        and name not in _COUNT_FACTS
        and not name.startswith(_ENDPOINT_PREFIXES)
        # Admit knows the directory's data about a user only from the login.
        and (of_directory or not name.startswith("user."))
    }


def _required_action(recorded: RecordedDecision, after: Decision) -> JudgedAction:
    """Return the action that a changed decision requires. If only the deciding rule changed, returns "" (no action).

    For an address from a pool, compares only whether the device has an address, because the log does not name the pool.
    """
    if not after.permitted:
        return "disconnect"
    pooled = {attribute for attribute, _ in after.pools}
    reply = tuple(tuple(pair) for pair in recorded.reply if pair[0] not in pooled)
    has_addresses = pooled <= {pair[0] for pair in recorded.reply}
    return "" if has_addresses and (reply, recorded.vlan) == (after.reply, after.vlan) else "reauthenticate"
