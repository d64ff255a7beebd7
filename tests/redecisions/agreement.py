"""One request, decided by every part that decides: the cell, a redecision, a simulation, a replay and a self-test."""

import json
from typing import NamedTuple

from nac.cellformat.class_attribute import encode_class
from nac.cellformat.packet_values import visible_pairs
from nac.cellformat.self_test_ticket import LIFETIME_SECONDS, MAC_PREFIX, NAS_IDENTIFIER, Ticket, encode_ticket
from nac.kit.clock import epoch_seconds
from nac.models import Tenant
from nac.onboarding.self_tests import plan
from nac.policies.replays import replay_policy
from nac.policies.simulation import simulate
from nac.redecisions import live_sessions
from nac.redecisions.judgement import Judge
from tests.agent.mirrored_rows import publish

MAC, USER = "00a0c0000001", "anna"
TESTED_MAC = f"{MAC_PREFIX}0"
ANYBODY = {"fallback": {"verdict": "permit", "vlan": "1"}}
ACTIVE = {
    "status": "active",
    "name": "Printer",
    "vendor": "",
    "os": "",
    "attributes": {},
    "posture": {},
    "valid_until": None,
    "first_seen_at": None,
    "groups": ("printers",),
    "psk_sealed": None,
}
ENABLED = {"disabled": False, "valid_until": None, "groups": ("staff",)}


class Answer(NamedTuple):
    """The fields of a decision that the cell, a redecision and a simulation report."""

    verdict: str
    reason: str
    rule_id: str
    vlan: str
    monitored: str

    @classmethod
    def of(cls, decision, reason=None):
        named = decision.reason if reason is None else reason
        return cls(decision.verdict, named, decision.rule_id, decision.vlan, decision.monitored)


class AgreementNet:
    """The network of a tenant, whose rows change with each example."""

    def __init__(self, net):
        self.net = net
        net.decide_by(ANYBODY)
        for kind, names in (("endpoint", ("printers", "cameras")), ("user", ("staff", "guests"))):
            for name in names:
                self.execute(f"INSERT INTO {kind}_groups (tenant_id, name) VALUES (%s, %s)", net.id, name)

    def execute(self, statement, *given):
        return self.net.owner.execute(statement, given or None)

    def reset_rows(self):
        """Restore a tenant that admits any device and the user."""
        for table in ("endpoints", "users", "sessions", "auth_log"):
            self.execute(f"DELETE FROM {table}")
        self.execute("UPDATE tenants SET status = 'active', methods = DEFAULT, tls_versions = DEFAULT")
        self.execute("UPDATE tenants SET default_site_id = %s", self.net.site_id)
        self.execute("UPDATE nases SET vendor = 'cisco'")
        self.set_site(monitor=False, fallback=None, has_policy=True)
        self.set_policy(ANYBODY)
        self.add_user(**ENABLED)

    def set_policy(self, document):
        self.execute("DELETE FROM policy_versions WHERE number > 1")
        publish(self.net.owner, self.net.tenant, self.net.policy_id, 2, document)

    def set_site(self, *, monitor=False, fallback=None, has_policy=True):
        self.execute(
            "UPDATE sites SET monitor = %s, fallback = %s, policy_id = %s WHERE id = %s",
            *(monitor, fallback and json.dumps(fallback)),
            *(self.net.policy_id if has_policy else None, self.net.site_id),
        )

    def add_endpoint(self, mac=MAC, **changes):
        endpoint = ACTIVE | changes
        self.execute(
            "INSERT INTO endpoints (tenant_id, mac, status, name, vendor, os, attributes, posture, valid_until, "
            "first_seen_at, psk_sealed) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            *(self.net.id, mac, endpoint["status"], endpoint["name"], endpoint["vendor"], endpoint["os"]),
            *(json.dumps(endpoint["attributes"]), json.dumps(endpoint["posture"])),
            *(endpoint["valid_until"], endpoint["first_seen_at"], endpoint["psk_sealed"]),
        )
        self._join("endpoint", endpoint["groups"])

    def add_user(self, *, disabled=False, valid_until=None, groups=()):
        self.execute(
            "INSERT INTO users (tenant_id, name, password_hash, disabled, valid_until) VALUES (%s, %s, '', %s, %s)",
            *(self.net.id, USER, disabled, valid_until),
        )
        self._join("user", groups)

    def _join(self, kind, groups):
        self.execute(
            f"INSERT INTO {kind}_group_members (tenant_id, {kind}_id, group_id) SELECT m.tenant_id, m.id, g.id "
            f"FROM {kind}s m, {kind}_groups g WHERE g.name = ANY (%s) ON CONFLICT DO NOTHING",
            list(groups),
        )

    def begin(self, mac=MAC, **queued_requests):
        """Begin a session of a device that the cell admits. Returns the session's id."""
        case, outcome = self.net.answer(mac, **queued_requests)
        assert outcome.permitted, outcome
        return self.net.begin(mac, encode_class(self.net.log(case, outcome)), case.identity)

    def redecide(self, row):
        """Evaluate the session again: (answer, action)."""
        with self.net.scope("worker") as session:
            [judged] = Judge(session, self.net.id).judge(
                live_sessions.read_rows(session, self.net.id, [row]), at=epoch_seconds()
            )
        assert judged.undecidable is None
        return Answer.of(judged.after, judged.reason), judged.action

    def simulate(self, case):
        """Simulate the packet and credentials of the cell's `case`."""
        request = {"method": case.method, **by_name(visible_pairs(case.request.pairs))}
        if case.method == "eap-tls":
            request |= {name: list(values) for name, values in case.facts.items() if name.startswith(("cert", "tls."))}
            request["identity"] = case.identity
        with self.net.scope() as session:
            return simulate(session, tenant_id=self.net.id, request=request)

    def replay(self, case, outcome, document):
        """Replay only this decision, with an unchanged document."""
        self.execute("DELETE FROM auth_log")
        self.net.log(case, outcome)
        with self.net.scope() as session:
            return replay_policy(session, tenant_id=self.net.id, document=document, policy_id=None, days=1)

    def self_test(self, *, known, group=""):
        """The cell's decision about the device of a self-test, and the decision that the self-test expects."""
        (key,) = self.execute("SELECT cui_key FROM tenants").fetchone()
        ticket = Ticket(TESTED_MAC, "0badc0de-0", epoch_seconds() + LIFETIME_SECONDS, known, group)
        pairs = [
            ("NAS-Port-Id", encode_ticket(ticket, key.bytes)),
            ("Service-Type", "Call-Check"),
            ("NAS-Port-Type", "Ethernet"),
        ]
        pairs += [("Connect-Info", group)] if group else []
        _, outcome = self.net.answer(TESTED_MAC, identifier=NAS_IDENTIFIER, pairs=tuple(pairs))
        with self.net.scope() as session:
            tenant = session.get_one(Tenant, self.net.id)
            return outcome, plan.expect_mab(session, tenant, mac=TESTED_MAC, known=known, group=group)


def by_name(pairs):
    named = {}
    for name, value in pairs:
        named.setdefault(name, []).append(value)
    return named
