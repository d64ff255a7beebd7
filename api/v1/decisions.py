"""Who was admitted or rejected, and why: the authentication log."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query
from pydantic import BaseModel, Field

from api.access import Access, ReadsTenant
from api.remedies import of_the_api
from api.v1.keys import Mac, SiteSlug
from api.v1.log_pages import LogPage, Since, Until, log_page, looked
from api.v1.paging import SortedPaging, sorted_by_time
from nac.accounts.permissions import Permission
from nac.decisions import service as decisions
from nac.decisions.service import LoggedDecision
from nac.mac import display_mac
from nac.methods import METHODS
from nac.reasons import REASONS

router = APIRouter(prefix="/tenants/{tenant}/decisions", tags=["decisions"])

Verdict = Literal["permit", "quarantine", "deny"]
Reads = Annotated[Access, Depends(ReadsTenant(Permission.LOG_READ))]
# Those that this version gives: the log has others of older ones.
if TYPE_CHECKING:
    Reason = str
    Method = str
else:
    Reason = Literal[tuple(REASONS)]
    Method = Literal[METHODS]


class Decision(BaseModel):
    id: str = Field(examples=["1767225600000000-4711"])
    at: datetime
    # As policy has it; in monitor mode not what was done.
    verdict: Verdict
    # Whether it was admitted: in monitor mode, whatever the verdict.
    permitted: bool
    # "rule" or "site" where that is in monitor mode.
    monitored_by: str | None
    mac: str | None
    user: str
    # What the device called itself outside the tunnel in which it said who it is.
    outer_user: str
    nas: str
    nas_port: str
    # Slug; null where it belonged to none, or to one that is gone.
    site: str | None
    # mab, eap-tls, ...
    method: str = Field(examples=["eap-tls"])
    # Code of the reason, what it means, what was found, and what to do about a reject.
    reason: str = Field(examples=["unknown-mac"])
    title: str
    detail: str
    remedy: str
    rule: str
    policy_version: int
    vlan: str
    # Common name and serial number (hex) of the certificate that was shown.
    certificate: str
    certificate_serial: str
    # A TLS session that was gone on with.
    resumed: bool
    # Rejects like it that were not logged one by one.
    suppressed: int


class ReplyAttribute(BaseModel):
    attribute: str
    operator: str
    value: str


class DecisionDetail(Decision):
    rule_id: str
    policy: str | None
    nas_address: str | None
    nas_identifier: str
    tls_version: str
    # What the NAS was answered.
    reply: list[ReplyAttribute]
    # What the policy decided by: the attributes of the request, the device, the user and the certificate.
    request: dict[str, Any]
    # What the decision took.
    microseconds: int


@router.get("", operation_id="listDecisions")
def list_decisions(
    access: Reads,
    paging: Annotated[SortedPaging, Depends(sorted_by_time("at"))],
    mac: Mac = "",
    user: Annotated[str, Query(max_length=253, description="Of this user, certificate name or serial number.")] = "",
    nas: Annotated[str, Query(max_length=253, description="Asked by this NAS: name, NAS-Identifier or address.")] = "",
    site: SiteSlug = "",
    verdict: Verdict | None = None,
    reason: Annotated[Reason | None, Query(description="Code of the reason.")] = None,
    method: Annotated[Method | None, Query(description="Authenticated by this method.")] = None,
    rejects: Annotated[bool, Query(description="Those that were not admitted alone.")] = False,
    monitored: Annotated[bool, Query(description="Those in monitor mode alone.")] = False,
    since: Since = None,
    until: Until = None,
) -> LogPage[Decision]:
    """`mac` is found by an index however long ago it was; what the other filters leave out is looked
    through page by page."""
    stretch = looked(paging, since, until)
    with access.read() as session:
        found = decisions.search_decisions(
            session,
            tenant_id=access.tenant_id,
            mac=mac,
            user=user,
            nas=nas,
            site=site,
            verdict=verdict or "",
            reason=reason or "",
            method=method or "",
            rejects=rejects,
            monitored=monitored,
            **stretch,
        )
        return log_page(paging, found, lambda logged: Decision(**_shown(logged)))


@router.get("/{decision}", operation_id="getDecision")
def get_decision(access: Reads, decision: Annotated[str, Path(max_length=40)]) -> DecisionDetail:
    """With all that it was decided by, and what the NAS was answered."""
    with access.read() as session:
        logged = decisions.require_decision(session, tenant_id=access.tenant_id, reference=decision)
    log = logged.log
    return DecisionDetail(
        **_shown(logged),
        rule_id=log.rule_id,
        policy=str(log.policy_id) if log.policy_id else None,
        nas_address=log.nas_address,
        nas_identifier=log.nas_identifier,
        tls_version=log.tls_version,
        reply=[ReplyAttribute(attribute=name, operator=op, value=str(value)) for name, op, value in log.reply or ()],
        request=log.request,
        microseconds=log.module_microseconds,
    )


def _shown(logged: LoggedDecision) -> dict[str, Any]:
    log, reason = logged.log, logged.reason
    return {
        "id": logged.reference,
        "at": log.at.astimezone(UTC),
        "verdict": logged.verdict,
        "permitted": log.permitted,
        "monitored_by": log.monitored or None,
        "mac": display_mac(log.mac) if log.mac else None,
        "user": log.identity,
        "outer_user": logged.outer_user,
        "nas": logged.nas,
        "nas_port": log.nas_port,
        "site": logged.site or None,
        "method": log.method,
        "reason": log.reason,
        "title": reason.title,
        "detail": log.detail,
        "remedy": of_the_api(reason.advice) if logged.verdict == "deny" else "",
        "rule": log.rule_name,
        "policy_version": log.policy_version,
        "vlan": log.vlan,
        "certificate": logged.certificate,
        "certificate_serial": log.certificate_serial,
        "resumed": log.resumed,
        "suppressed": log.suppressed,
    }
