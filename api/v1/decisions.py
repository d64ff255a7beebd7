"""Authentication log: decisions about requests."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Depends, Path, Query
from pydantic import BaseModel, Field

from api.access import Access, ReadsTenant
from api.routes import NounRouter
from api.v1.list_parameters import LogPage, Mac, Since, SiteSlug, Until, build_log_page, build_log_range
from api.v1.paging import SortedPaging, require_time_paging
from nac.cellformat.methods import METHODS
from nac.engine.reasons import REASONS
from nac.kit.mac import display_mac
from nac.kit.permissions import Permission
from nac.pools.extent import ATTRIBUTE_BY_KIND
from nac.sessions.decisions import service as decisions
from nac.sessions.decisions.service import LoggedDecision

router = NounRouter(
    prefix="/tenants/{tenant}/decisions",
    tag="decisions",
    description="Authentication log: authentication requests, with the results and reasons.",
)

Verdict = Literal["permit", "quarantine", "deny"]
Reads = Annotated[Access, Depends(ReadsTenant(Permission.LOG_READ))]
# Authentication methods that this version of Admit logs. The log can also contain methods of earlier versions.
if TYPE_CHECKING:
    Reason = str
    Method = str
else:
    Reason = Literal[tuple(REASONS)]
    Method = Literal[METHODS]


class Decision(BaseModel):
    id: str = Field(examples=["1767225600000000-4711"], description="Permanent id of the decision.")
    at: datetime = Field(description="Time of the decision.")
    verdict: Verdict = Field(
        description='Verdict of the policy; "" if no policy decided. Monitor mode does not enforce the verdict.'
    )
    permitted: bool = Field(
        description=(
            "Whether Admit admitted the device. In monitor mode, Admit admits the device regardless of the verdict."
        )
    )
    monitored_by: str | None = Field(description="`rule` or `site`, whichever is in monitor mode; null if neither is.")
    mac: str | None = Field(description="MAC address of the device, such as 00:00:5e:00:53:01.")
    user: str = Field(description='User name in the request; "" if unknown.')
    outer_user: str = Field(
        examples=["anonymous"],
        description=(
            "User-Name in the request, if the name differs from `user`: an outer identity or a name with a realm. "
            '"" otherwise.'
        ),
    )
    nas: str = Field(
        description="Name of the NAS that sent the request. If the NAS is not registered: its NAS-Identifier "
        "or address."
    )
    nas_port: str = Field(description='Port of the NAS (NAS-Port-Id or NAS-Port); "" if absent.')
    site: str | None = Field(description="Slug of the site of the NAS; null if the site is unknown or deleted.")
    method: str = Field(
        examples=["eap-tls"], description='Authentication method of the request, such as eap-tls or mab; "" if unknown.'
    )
    reason: str = Field(
        examples=["unknown-mac"],
        description=(
            "Reason code of the decision, such as rule-permitted or no-policy. `title` and `detail` explain the "
            "reason. Later versions of Admit can add codes."
        ),
    )
    title: str = Field(description="Meaning of the reason code.")
    detail: str = Field(description='Explanation of the decision in one sentence; "" if none.')
    remedy: str = Field(description='What to do about the reject; "" if nothing.')
    rule: str = Field(description='Name of the rule that decided; "" if no rule decided.')
    policy_version: int = Field(description="Number of the policy version that decided; 0 if no version decided.")
    vlan: str = Field(description='VLAN that the decision assigned to the device; "" if none.')
    addresses: list[str] = Field(
        examples=[["10.1.0.21"]], description="IP addresses that a pool or the rule assigned to the device."
    )
    certificate: str = Field(
        examples=["laptop-1"], description='Common name of the certificate that the device presented; "" if none.'
    )
    certificate_serial: str = Field(
        examples=["5f3a9c0e1b7d2468"],
        description='Serial number in hex of the certificate that the device presented; "" if none.',
    )
    resumed: bool = Field(description="Whether the device resumed an earlier TLS session.")
    suppressed: int = Field(
        description="Number of similar rejects that Admit counted in this entry instead of logging each reject."
    )


class ReplyAttribute(BaseModel):
    attribute: str = Field(description="Name of the attribute in the reply.")
    operator: str = Field(description="Operator of the attribute in the reply.")
    value: str = Field(description="Value of the attribute in the reply.")


class DecisionDetail(Decision):
    rule_id: str = Field(examples=["printers"], description='Id of the rule that decided; "" if no rule decided.')
    policy: str | None = Field(description="Id of the policy that decided; null if no policy decided.")
    nas_address: str | None = Field(description="IP address of the NAS that sent the request.")
    nas_identifier: str = Field(examples=["sw-2og-1"], description='NAS-Identifier of the request; "" if absent.')
    tls_version: str = Field(
        examples=["1.3"], description='TLS version of the authentication; "" if the method did not use TLS.'
    )
    reply: list[ReplyAttribute] = Field(description="Attributes of the reply to the NAS.")
    request: dict[str, Any] = Field(
        description="Input of the decision: attributes of the request, device, user and certificate."
    )
    microseconds: int = Field(examples=[850], description="Time that the decision took, in microseconds.")


@router.get("", operation_id="listDecisions")
def list_decisions(
    access: Reads,
    paging: Annotated[SortedPaging, Depends(require_time_paging("at"))],
    mac: Mac = "",
    user: Annotated[
        str,
        Query(max_length=253, description="User name, certificate name or certificate serial number of the decisions."),
    ] = "",
    nas: Annotated[
        str, Query(max_length=253, description="Name, NAS-Identifier or address of the NAS that sent the requests.")
    ] = "",
    site: SiteSlug = "",
    verdict: Annotated[Verdict | None, Query(description="Verdict of the decisions to list.")] = None,
    reason: Annotated[Reason | None, Query(description="Reason code of the decisions to list.")] = None,
    method: Annotated[Method | None, Query(description="Authentication method of the decisions to list.")] = None,
    rejects: Annotated[bool, Query(description="Whether to list only rejected requests.")] = False,
    monitored: Annotated[bool, Query(description="Whether to list only decisions in monitor mode.")] = False,
    since: Since = None,
    until: Until = None,
) -> LogPage[Decision]:
    """List authentication decisions.

    With `mac`, each request searches the whole log. With other filters, each request searches a limited part of the
    log. So a page can have fewer items than `limit` and still have a `next`.
    """
    stretch = build_log_range(paging, since, until)
    with access.read() as session:
        logs = decisions.search_decisions(
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
        return build_log_page(paging, logs, build_decision)


@router.get("/{decision}", operation_id="getDecision")
def get_decision(
    access: Reads,
    decision: Annotated[
        str,
        Path(
            max_length=40, examples=["1767225600000000-1"], description="Id of the decision in the authentication log."
        ),
    ],
) -> DecisionDetail:
    """Get a decision, with the policy's input and the reply to the NAS."""
    with access.read() as session:
        logged = decisions.require_decision(session, tenant_id=access.tenant_id, reference=decision)
    log = logged.log
    return DecisionDetail(
        **_describe_decision(logged),
        rule_id=log.rule_id,
        policy=str(log.policy_id) if log.policy_id else None,
        nas_address=log.nas_address,
        nas_identifier=log.nas_identifier,
        tls_version=log.tls_version,
        reply=[ReplyAttribute(attribute=name, operator=op, value=str(value)) for name, op, value in log.reply or ()],
        request=log.request,
        microseconds=log.module_microseconds,
    )


def build_decision(logged: LoggedDecision) -> Decision:
    return Decision(**_describe_decision(logged))


def _describe_decision(logged: LoggedDecision) -> dict[str, Any]:
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
        "remedy": reason.advice if logged.verdict == "deny" else "",
        "rule": log.rule_name,
        "policy_version": log.policy_version,
        "vlan": log.vlan,
        "addresses": [value for name, _, value in log.reply or () if name in ATTRIBUTE_BY_KIND.values()],
        "certificate": logged.certificate,
        "certificate_serial": log.certificate_serial,
        "resumed": log.resumed,
        "suppressed": log.suppressed,
    }
