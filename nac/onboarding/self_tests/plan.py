"""The checks of a self-test, with the expected results.

Admit calculates the expected responses by a simulation of the tenant's policy.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from sqlalchemy.orm import Session

from nac.cellformat.self_test_ticket import MAC_PREFIX, MAX_GROUP_OCTETS, NAS_IDENTIFIER, PLAYED_PROFILE
from nac.engine.references import references
from nac.kit.ids import TenantId
from nac.kit.mac import display_mac
from nac.models import Tenant
from nac.onboarding.self_tests import actions
from nac.onboarding.self_tests.actions import DeviceAction, PlayedDevice
from nac.onboarding.self_tests.board import SILENCE
from nac.onboarding.self_tests.identities import build_foreign_identity
from nac.onboarding.self_tests.supplicant import DeviceIdentity
from nac.policies import service as policies
from nac.policies.simulation import simulate
from nac.tenancy import sites
from pki.names import read_common_name, read_sans
from pki.openssl_names import format_one_line

# Maximum number of endpoint groups to test.
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


# Reason codes with which OpenSSL or the policy module rejects a certificate of a wrong authority.
_UNTRUSTED_REASONS = frozenset(
    ("unknown-ca", "imitated-ca", "wrong-tenant-ca", "tls-failed", "certificate-invalid", "certificate-unknown")
)
_NOT_OFFERED = "method-not-offered"


@dataclass(frozen=True, slots=True)
class SelfTestCheck:
    name: str
    sent: str
    # Id of the check in the cell's log.
    mark: str
    expected: ExpectedReply
    act: DeviceAction
    # Whether the cell must log a decision.
    is_logged: bool = True


class SelfTestPlan:
    def __init__(self, session: Session, tenant: Tenant, run: str, now: datetime) -> None:
        """Create a plan. `run` identifies the run in logs (8 hexadecimal digits)."""
        self._session = session
        self._tenant = tenant
        self._run = run
        self._now = now
        self._devices = 0

    def checks(self, good: DeviceIdentity, revoked: DeviceIdentity) -> list[SelfTestCheck]:
        groups = list_policy_groups(self._session, tenant_id=self._tenant.id)
        return [
            self._mac_check("unknown device", self._device()),
            self._mac_check("known device", self._device(known=True)),
            *(
                self._mac_check(f"known device of group {group}", self._device(known=True, group=group))
                for group in groups
            ),
            self._certificate_check(good),
            self._refused_certificate(
                "revoked certificate",
                revoked,
                "the certificate has just been revoked",
                frozenset(("certificate-revoked",)),
            ),
            self._refused_certificate(
                "certificate of another tenant",
                build_foreign_identity("stranger", now=self._now),
                "no authority of this tenant signed it",
            ),
            self._refused_certificate(
                "authority with the same name and another key",
                build_foreign_identity("imitator", now=self._now, imitated=good.chain[1]),
                "the authority does not have the key of the tenant's authority",
            ),
            self._forged_ticket(),
            self._wrong_secret(),
            self._accounting(),
        ]

    def _device(self, *, known: bool = False, group: str = "") -> PlayedDevice:
        number, self._devices = self._devices, self._devices + 1
        return PlayedDevice(f"{MAC_PREFIX}{number:x}", f"{self._run}-{number}", known, group)

    def _mac_check(self, sent: str, device: PlayedDevice) -> SelfTestCheck:
        expected = expect_mab(self._session, self._tenant, mac=device.mac, known=device.known, group=device.group)
        return SelfTestCheck("MAB", sent, device.mark, expected, actions.build_mab_action(device))

    def _certificate_check(self, identity: DeviceIdentity) -> SelfTestCheck:
        device = self._device()
        expected = expect_certificate(self._session, self._tenant, mac=device.mac, shown=identity.chain[0])
        return SelfTestCheck(
            "EAP-TLS", "good certificate", device.mark, expected, actions.build_eap_tls_action(device, identity)
        )

    def _refused_certificate(
        self, sent: str, identity: DeviceIdentity, because: str, reasons: frozenset[str] = _UNTRUSTED_REASONS
    ) -> SelfTestCheck:
        device = self._device()
        if "eap-tls" not in self._tenant.methods:
            reasons = frozenset((_NOT_OFFERED,))
        expected = ExpectedReply("reject", because, reasons)
        return SelfTestCheck("EAP-TLS", sent, device.mark, expected, actions.build_eap_tls_action(device, identity))

    def _forged_ticket(self) -> SelfTestCheck:
        device = self._device(known=True)
        expected = ExpectedReply("reject", "only Admit can simulate devices", frozenset(("self-test-refused",)))
        act = actions.build_mab_action(device, tenant_key=secrets.token_bytes(16))
        return SelfTestCheck("MAB", "known device, forged ticket", device.mark, expected, act)

    def _wrong_secret(self) -> SelfTestCheck:
        device = self._device(known=True)
        expected = ExpectedReply(SILENCE, "requests with a wrong secret are ignored")
        act = actions.build_mab_action(device, secret=secrets.token_bytes(16))
        return SelfTestCheck("Secret", "wrong secret", device.mark, expected, act, is_logged=False)

    def _accounting(self) -> SelfTestCheck:
        device = self._device(known=True)
        expected = ExpectedReply("acknowledged", "the accounting port responds")
        return SelfTestCheck(
            "Accounting",
            "start of a session",
            device.mark,
            expected,
            actions.build_accounting_action(device),
            is_logged=False,
        )
