"""The checks of a self-test, with the expected results."""

import secrets
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from nac.cellformat.self_test_ticket import MAC_PREFIX
from nac.models import Tenant
from nac.onboarding.self_tests import actions, expectations
from nac.onboarding.self_tests.actions import DeviceAction, PlayedDevice
from nac.onboarding.self_tests.board import SILENCE
from nac.onboarding.self_tests.expectations import ExpectedReply
from nac.onboarding.self_tests.identities import build_foreign_identity
from nac.onboarding.self_tests.supplicant import DeviceIdentity

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
        groups = expectations.list_policy_groups(self._session, tenant_id=self._tenant.id)
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
        expected = expectations.expect_mab(
            self._session, self._tenant, mac=device.mac, known=device.known, group=device.group
        )
        return SelfTestCheck("MAB", sent, device.mark, expected, actions.build_mab_action(device))

    def _certificate_check(self, identity: DeviceIdentity) -> SelfTestCheck:
        device = self._device()
        expected = expectations.expect_certificate(self._session, self._tenant, mac=device.mac, shown=identity.chain[0])
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
