"""Events of decisions, from journal records and from `auth_log`."""

from collections.abc import Callable, Sequence
from typing import Literal, cast

from nac.decisions.recorded import microseconds_of
from nac.events.document import (
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
from nac.events.parts import ECS, client, is_user, named, observer, organization, present, user
from nac.events.texts import Tenant, address, count, key, line, moment, text, uuid
from nac.journal.records import AuthRecord
from nac.mac import display_mac
from nac.models import AuthLog
from nac.packet_values import packet_value
from nac.reasons import get_reason

# Maximum of the column.
_INT4_MAX = 2**31 - 1
# Returns the first value of an attribute, or "".
_Ask = Callable[[str], str]


def from_record(record: AuthRecord, *, number: int, tenant: Tenant) -> Event:
    """Return the event; `number` is the id of its row in `auth_log`."""

    def ask(name: str) -> str:
        return _first(record.facts.get(name) or packet_value(record, name))

    return _event(record, ask, at=record.at, number=number, tenant=tenant)


def from_log(row: AuthLog, *, tenant: Tenant) -> Event:
    def ask(name: str) -> str:
        return _first(row.request.get(name, ()))

    return _event(row, ask, at=microseconds_of(row.at), number=row.id, tenant=tenant)


def _event(decision: AuthRecord | AuthLog, ask: _Ask, *, at: int, number: int, tenant: Tenant) -> Event:
    title = get_reason(decision.reason).title
    rule = Rule(
        id=text(decision.rule_id),
        name=text(decision.rule_name),
        ruleset=uuid(decision.policy_id) or "",
        version=str(decision.policy_version) if decision.policy_version else "",
    )
    return Event(
        timestamp=moment(at),
        ecs=ECS,
        event=EventPart(
            id=f"authentication:{key(at, number)}",
            kind="event",
            category=("authentication", "network"),
            type=("start", "allowed" if decision.permitted else "denied"),
            dataset="admit.authentication",
            action="device-admitted" if decision.permitted else "device-refused",
            outcome="success" if decision.permitted else "failure",
            code=text(decision.reason),
            reason=text(title),
        ),
        message=_message(decision, title),
        organization=organization(tenant),
        user=user(decision.identity, decision.mac),
        client=client(decision.mac),
        observer=observer(decision.nas_identifier, decision.nas_address, decision.nas_port),
        rule=present(rule),
        network=Network(vlan=Vlan(id=text(decision.vlan))) if decision.vlan else None,
        tls=_tls(decision, ask),
        admit=_admit(decision, ask),
    )


def _admit(decision: AuthRecord | AuthLog, ask: _Ask) -> Authentication:
    carried_out = "permit" if decision.permitted else "deny"
    return Authentication(
        version=VERSION,
        site=named(decision.site_id, ask("site.name")),
        nas=named(decision.nas_id, ask("nas.name")),
        method=text(decision.method),
        verdict=cast(Literal["permit", "quarantine", "deny"], decision.verdict or carried_out),
        monitored=cast(Literal["", "rule", "site"], decision.monitored),
        detail=text(decision.detail),
        ssid=text(ask("ssid")),
        suppressed=count(decision.suppressed, _INT4_MAX) or 0,
        module_microseconds=count(decision.module_microseconds, _INT4_MAX) or 0,
    )


def _tls(decision: AuthRecord | AuthLog, ask: _Ask) -> Tls | None:
    if not (decision.tls_version or decision.certificate_serial):
        return None
    name = ask("certificate.common_name")
    x509 = X509(
        serial_number=text(decision.certificate_serial).upper(),
        subject=Subject(common_name=(text(name),)) if name else None,
    )
    return Tls(
        version=text(decision.tls_version),
        resumed=decision.resumed,
        client=TlsClient(x509=x509) if x509 != X509() else None,
    )


def _message(decision: AuthRecord | AuthLog, title: str) -> str:
    named = [display_mac(decision.mac)] if decision.mac else []
    if is_user(decision.identity, decision.mac):
        named.append(text(decision.identity))
    place = text(decision.nas_identifier) or address(decision.nas_address) or "an unknown NAS"
    done = "admitted" if decision.permitted else "refused"
    what = f"{' '.join(named) or 'A device'} {done} at {place}: {title}"
    where = [f"rule {text(decision.rule_name)}"] if decision.rule_name else []
    where += [f"VLAN {text(decision.vlan)}"] if decision.vlan else []
    return line(f"{what} ({', '.join(where)})" if where else what)


def _first(values: Sequence[object]) -> str:
    return str(values[0]) if values else ""
