"""Expected responses for simulated devices, which Admit calculates by simulating the tenant's policy."""

from dataclasses import dataclass

from cryptography import x509
from sqlalchemy.orm import Session

from nac.cellformat.self_test_ticket import MAX_GROUP_OCTETS, NAS_IDENTIFIER, PLAYED_PROFILE
from nac.engine.references import references
from nac.kit.ids import TenantId
from nac.kit.mac import display_mac
from nac.models import Tenant
from nac.policies import service as policies
from nac.policies.simulation import simulate
from nac.tenancy import sites
from pki.names import read_common_name, read_sans
from pki.openssl_names import format_one_line

# Maximum endpoint groups to test.
MAX_GROUPS = 4


@dataclass(frozen=True, slots=True)
class ExpectedReply:
    text: str
    because: str
    reasons: frozenset[str] = frozenset()


def list_policy_groups(session: Session, *, tenant_id: TenantId) -> list[str]:
    """Return the endpoint groups that occur in the policy of the default site, at most MAX_GROUPS."""
    site = sites.get_default(session, tenant_id=tenant_id)
    if site is None or site.policy_id is None:
        return []
    found = next(each for each in policies.list_policies(session, tenant_id=tenant_id) if each.id == site.policy_id)
    if found.published_version is None:
        return []
    version = policies.require_version(session, tenant_id=tenant_id, slug=found.slug, number=found.published_version)
    names = dict.fromkeys(each.name for each in references(version.document) if each.kind == "endpoint-group")
    return [name for name in names if len(name.encode()) <= MAX_GROUP_OCTETS][:MAX_GROUPS]


def expect_mab(session: Session, tenant: Tenant, *, mac: str, known: bool, group: str = "") -> ExpectedReply:
    request: dict[str, object] = {"method": "mab", "identity": mac, "endpoint.known": known}
    request["radius.Service-Type"] = "Call-Check"
    if known:
        request["endpoint.name"] = "Self-test"
    if group:
        request["endpoint.group"] = [group]
    return _expect_decision(session, tenant, mac, request)


def expect_certificate(session: Session, tenant: Tenant, *, mac: str, shown: x509.Certificate) -> ExpectedReply:
    names: dict[str, list[str]] = {}
    for each in read_sans(shown):
        names.setdefault(f"certificate.san.{each.kind}", []).append(each.value)
    request: dict[str, object] = {
        "method": "eap-tls",
        "identity": read_common_name(shown.subject),
        "tls.version": "1.3",
        "tls.resumed": False,
        "certificate.profile": PLAYED_PROFILE,
        "certificate.common_name": read_common_name(shown.subject),
        "certificate.subject": format_one_line(shown.subject),
        "certificate.issuer": format_one_line(shown.issuer),
        "certificate.serial": f"{shown.serial_number:x}",
        "endpoint.known": False,
        "radius.Service-Type": "Framed-User",
        **names,
    }
    return _expect_decision(session, tenant, mac, request)


def _expect_decision(session: Session, tenant: Tenant, mac: str, request: dict[str, object]) -> ExpectedReply:
    packet = {
        "mac": mac,
        "nas.identifier": NAS_IDENTIFIER,
        "radius.Calling-Station-Id": display_mac(mac),
        "radius.NAS-Port-Type": "Ethernet",
    }
    answer = simulate(session, tenant_id=tenant.id, request=packet | request)
    decision = answer.decision
    text = "reject"
    if decision.permitted:
        text = f"permit VLAN {decision.vlan}" if decision.vlan else "permit"
    return ExpectedReply(text, answer.why, frozenset((decision.reason,)))
