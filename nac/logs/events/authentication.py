"""Events of authentication decisions, from journal records and from rows of `auth_log`."""

from collections.abc import Callable, Sequence
from typing import Literal, cast

from nac.cellformat.journal.records import AuthRecord
from nac.cellformat.packet_values import packet_value
from nac.engine.reasons import get_reason
from nac.kit.mac import display_mac
from nac.logs.events.document import (
    VERSION,
    X509,
    Authentication,
    Event,
    EventPart,
    Network,
    Rule,
    Subject,
    Tls,
    TlsClient,
    Vlan,
)
from nac.logs.events.event_values import (
    EventTenant,
    clip_count,
    clip_line,
    clip_text,
    format_address,
    format_moment,
    format_uuid,
    row_key,
)
from nac.logs.events.parts import ECS, build_named, client, is_user_name, none_if_empty, observer, organization, user
from nac.models import AuthLog
from nac.sessions.decisions.recorded_requests import to_microseconds

# Maximum value of an integer column in PostgreSQL.
_INT4_MAX = 2**31 - 1
# Returns the first value of the attribute with this name, or "".
_FactReader = Callable[[str], str]


def from_record(record: AuthRecord, *, number: int, tenant: EventTenant) -> Event:
    """Return the event of an authentication decision. `number` is the id of the record's row in `auth_log`."""

    def ask(name: str) -> str:
        return _first_text(record.facts.get(name) or packet_value(record, name))

    return _build_event(record, ask, at=record.at, number=number, tenant=tenant)


def from_log(row: AuthLog, *, tenant: EventTenant) -> Event:
    def ask(name: str) -> str:
        return _first_text(row.request.get(name, ()))

    return _build_event(row, ask, at=to_microseconds(row.at), number=row.id, tenant=tenant)


def _build_event(
    decision: AuthRecord | AuthLog, ask: _FactReader, *, at: int, number: int, tenant: EventTenant
) -> Event:
    title = get_reason(decision.reason).title
    rule = Rule(
        id=clip_text(decision.rule_id),
        name=clip_text(decision.rule_name),
        ruleset=format_uuid(decision.policy_id) or "",
        version=str(decision.policy_version) if decision.policy_version else "",
    )
    return Event(
        timestamp=format_moment(at),
        ecs=ECS,
        event=EventPart(
            id=f"authentication:{row_key(at, number)}",
            kind="event",
            category=("authentication", "network"),
            type=("start", "allowed" if decision.permitted else "denied"),
            dataset="admit.authentication",
            action="device-admitted" if decision.permitted else "device-refused",
            outcome="success" if decision.permitted else "failure",
            code=clip_text(decision.reason),
            reason=clip_text(title),
        ),
        message=_build_message(decision, title),
        organization=organization(tenant),
        user=user(decision.identity, decision.mac),
        client=client(decision.mac),
        observer=observer(decision.nas_identifier, decision.nas_address, decision.nas_port),
        rule=none_if_empty(rule),
        network=Network(vlan=Vlan(id=clip_text(decision.vlan))) if decision.vlan else None,
        tls=_build_tls(decision, ask),
        admit=_build_admit_part(decision, ask),
    )


def _build_admit_part(decision: AuthRecord | AuthLog, ask: _FactReader) -> Authentication:
    carried_out = "permit" if decision.permitted else "deny"
    return Authentication(
        version=VERSION,
        site=build_named(decision.site_id, ask("site.name")),
        nas=build_named(decision.nas_id, ask("nas.name")),
        method=clip_text(decision.method),
        verdict=cast(Literal["permit", "quarantine", "deny"], decision.verdict or carried_out),
        monitored=cast(Literal["", "rule", "site"], decision.monitored),
        detail=clip_text(decision.detail),
        ssid=clip_text(ask("ssid")),
        suppressed=clip_count(decision.suppressed, _INT4_MAX) or 0,
        module_microseconds=clip_count(decision.module_microseconds, _INT4_MAX) or 0,
    )


def _build_tls(decision: AuthRecord | AuthLog, ask: _FactReader) -> Tls | None:
    if not (decision.tls_version or decision.certificate_serial):
        return None
    name = ask("certificate.common_name")
    x509 = X509(
        serial_number=clip_text(decision.certificate_serial).upper(),
        subject=Subject(common_name=(clip_text(name),)) if name else None,
    )
    return Tls(
        version=clip_text(decision.tls_version),
        resumed=decision.resumed,
        client=TlsClient(x509=x509) if x509 != X509() else None,
    )


def _build_message(decision: AuthRecord | AuthLog, title: str) -> str:
    named = [display_mac(decision.mac)] if decision.mac else []
    if is_user_name(decision.identity, decision.mac):
        named.append(clip_text(decision.identity))
    place = clip_text(decision.nas_identifier) or format_address(decision.nas_address) or "an unknown NAS"
    done = "admitted" if decision.permitted else "refused"
    what = f"{' '.join(named) or 'A device'} {done} at {place}: {title}"
    where = [f"rule {clip_text(decision.rule_name)}"] if decision.rule_name else []
    where += [f"VLAN {clip_text(decision.vlan)}"] if decision.vlan else []
    return clip_line(f"{what} ({', '.join(where)})" if where else what)


def _first_text(values: Sequence[object]) -> str:
    return str(values[0]) if values else ""
