"""Which checks a self-test of a tenant makes, and what is to be expected of each."""

import secrets
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from nac.models import Tenant
from nac.self_tests import asking, expecting
from nac.self_tests.asking import Act, Device
from nac.self_tests.board import SILENCE
from nac.self_tests.expecting import Expected
from nac.self_tests.identities import stranger
from nac.self_tests.supplicant import Identity
from nac.self_tests.ticket import MAC_PREFIX

# How a device that shows the certificate of a wrong authority may be refused, by OpenSSL or by the module.
_NOT_TRUSTED = frozenset(
    ("unknown-ca", "imitated-ca", "wrong-tenant-ca", "tls-failed", "certificate-invalid", "certificate-unknown")
)
_NOT_OFFERED = "method-not-offered"


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    sent: str
    # In logs.
    mark: str
    expected: Expected
    act: Act
    # Whether the cell must log a decision.
    is_logged: bool = True


class Plan:
    def __init__(self, session: Session, tenant: Tenant, run: str, now: datetime) -> None:
        """`run` names it in logs: 8 hex digits."""
        self._session = session
        self._tenant = tenant
        self._run = run
        self._now = now
        self._devices = 0

    def checks(self, good: Identity, revoked: Identity) -> list[Check]:
        groups = expecting.groups_asked_for(self._session, tenant_id=self._tenant.id)
        return [
            self._by_mac("unknown device", self._device()),
            self._by_mac("known device", self._device(known=True)),
            *(
                self._by_mac(f"known device of group {group}", self._device(known=True, group=group))
                for group in groups
            ),
            self._by_certificate(good),
            self._refused_certificate(
                "revoked certificate", revoked, "it was revoked just now", frozenset(("certificate-revoked",))
            ),
            self._refused_certificate(
                "certificate of another tenant",
                stranger("stranger", now=self._now),
                "no authority of this tenant has signed it",
            ),
            self._refused_certificate(
                "authority of the same name, with another key",
                stranger("imitator", now=self._now, imitated=good.chain[1]),
                "a name proves nothing",
            ),
            self._forged_ticket(),
            self._wrong_secret(),
            self._accounting(),
        ]

    def _device(self, *, known: bool = False, group: str = "") -> Device:
        number, self._devices = self._devices, self._devices + 1
        return Device(f"{MAC_PREFIX}{number:x}", f"{self._run}-{number}", known, group)

    def _by_mac(self, sent: str, device: Device) -> Check:
        expected = expecting.expect_mab(
            self._session, self._tenant, mac=device.mac, known=device.known, group=device.group
        )
        return Check("MAB", sent, device.mark, expected, asking.by_mac(device))

    def _by_certificate(self, identity: Identity) -> Check:
        device = self._device()
        expected = expecting.expect_certificate(self._session, self._tenant, mac=device.mac, shown=identity.chain[0])
        return Check("EAP-TLS", "good certificate", device.mark, expected, asking.by_certificate(device, identity))

    def _refused_certificate(
        self, sent: str, identity: Identity, because: str, reasons: frozenset[str] = _NOT_TRUSTED
    ) -> Check:
        device = self._device()
        if "eap-tls" not in self._tenant.methods:
            reasons = frozenset((_NOT_OFFERED,))
        expected = Expected("reject", because, reasons)
        return Check("EAP-TLS", sent, device.mark, expected, asking.by_certificate(device, identity))

    def _forged_ticket(self) -> Check:
        device = self._device(known=True)
        expected = Expected("reject", "nobody but Admit plays devices", frozenset(("self-test-refused",)))
        act = asking.by_mac(device, tenant_key=secrets.token_bytes(16))
        return Check("MAB", "known device, forged ticket", device.mark, expected, act)

    def _wrong_secret(self) -> Check:
        device = self._device(known=True)
        expected = Expected(SILENCE, "who does not have the secret is not heard")
        act = asking.by_mac(device, secret=secrets.token_bytes(16))
        return Check("Secret", "wrong secret", device.mark, expected, act, is_logged=False)

    def _accounting(self) -> Check:
        device = self._device(known=True)
        expected = Expected("acknowledged", "the port for accounting answers")
        return Check(
            "Accounting", "start of a session", device.mark, expected, asking.by_accounting(device), is_logged=False
        )
