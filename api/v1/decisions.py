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
    id: str = Field(examples=["1767225600000000-4711"], description="Id; it stays.")
    at: datetime = Field(description="When it happened.")
    verdict: Verdict = Field(
        description='What the policy says; in monitor mode not what was done. "" where no policy was asked.'
    )
    permitted: bool = Field(description="Whether it was admitted: in monitor mode, whatever the verdict.")
    monitored_by: str | None = Field(
        description='rule or site, where that is in monitor mode; null or "" where none is.'
    )
    mac: str | None = Field(description="MAC address of the device, such as 00:00:5e:00:53:01.")
    user: str = Field(description='User name; null or "" where there is none.')
    outer_user: str = Field(
        description="User-Name as it was sent, where it is not `user`: outside a tunnel, or with a realm "
        'of the tenant\'s own; "" else.'
    )
    nas: str = Field(description="Name of the NAS or, where it is not registered, what it says of itself.")
    nas_port: str = Field(description='Port of the NAS (NAS-Port-Id or NAS-Port); "" where none was told.')
    site: str | None = Field(
        description='Slug of the site; null or "" where it belongs to none, or to one that is gone.'
    )
    method: str = Field(
        examples=["eap-tls"], description='Authentication method, such as eap-tls or mab; "" where it is not known.'
    )
    reason: str = Field(
        examples=["unknown-mac"],
        description="Code of the reason, such as rule-permitted or no-policy; `title` and `detail` say "
        "what it means. The list is open.",
    )
    title: str = Field(description="What the reason means.")
    detail: str = Field(description='What is so, in a sentence for people. "" where there is nothing to say.')
    remedy: str = Field(description='What to do about it; "" where there is nothing to do.')
    rule: str = Field(description='Name of the rule; "" for the fallback.')
    policy_version: int = Field(description="Number of the policy's version that decided; 0 or null where none did.")
    vlan: str = Field(description='VLAN that the device gets; "" where none is said.')
    certificate: str = Field(description='Common name of the certificate that was shown; "" where none was.')
    certificate_serial: str = Field(
        description='Serial number (hex) of the certificate that was shown; "" where none was.'
    )
    resumed: bool = Field(description="Whether a TLS session was gone on with.")
    suppressed: int = Field(description="Rejects like it that were not logged one by one.")


class ReplyAttribute(BaseModel):
    attribute: str = Field(description="Name of the attribute.")
    operator: str = Field(description="How the two are compared or put together.")
    value: str = Field(description="The value.")


class DecisionDetail(Decision):
    rule_id: str = Field(description='Id of the rule; "" for the fallback.')
    policy: str | None = Field(description="Slug of the policy.")
    nas_address: str | None = Field(description="IP address of the NAS.")
    nas_identifier: str = Field(description='NAS-Identifier of the request; "" where there was none.')
    tls_version: str = Field(description='TLS version; "" where there was none.')
    reply: list[ReplyAttribute] = Field(description="What the NAS was answered.")
    request: dict[str, Any] = Field(
        description="What the policy decided by: the attributes of the request, the device, the user and "
        "the certificate."
    )
    microseconds: int = Field(description="What the decision took, in microseconds.")


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
