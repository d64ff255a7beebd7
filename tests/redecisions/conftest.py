"""A tenant whose cell decides with the code of the module. Its replica follows the database."""

import json
from contextlib import contextmanager
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from nac.cellformat.class_attribute import encode_class
from nac.cellformat.packet_values import packet_values
from nac.kit.clock import utc_now
from nac.kit.db import CellScope, PlatformScope, TenantScope, session_scope
from nac.models import AuthLog, CoaRequest, Redecision, RedecisionItem
from nac.redecisions import runner, service
from nac.redecisions.settings import MIN_CEILING
from nac.sessions.decisions.recorded_requests import from_microseconds
from radius.module.decision import AuthenticationCase, LocationCache, decide_case
from radius.module.passphrases import add_passphrase
from radius.module.policies import CompiledPolicies
from radius.module.request import AccessRequest, first_value
from tests.agent.conftest import Replica, Tenant
from tests.agent.mirrored_rows import add_endpoint, add_nas, add_policy, add_site, add_user, publish
from tests.factories.rows import make_row
from tests.factories.tenancy import ACTOR, make_platform, make_tenant
from tests.policies.conftest import upload as upload
from tests.row_snapshots import snapshotted

_OUTCOME = (
    *("permitted", "reason", "detail", "rule_id", "rule_name", "policy_version", "vlan", "verdict", "monitored"),
)
IDENTIFIER, ADDRESS = "switch", "192.0.2.1"
PRINTER, CAMERA, LAPTOP = "00a0c0000001", "00a0c0000002", "00a0c0000003"


def by_group(group, vlan="20", verdict="permit", identifier="r", attribute="endpoint.group"):
    then = {"verdict": verdict} | ({"vlan": vlan} if vlan else {})
    when = {"attribute": attribute, "operator": "equals", "value": group}
    return {"id": identifier, "name": identifier, "when": when, "then": then}


def document(*rules, fallback=None):
    return {"rules": list(rules), "fallback": fallback or {"verdict": "deny"}}


def office_policy(printers="20", cameras="30"):
    """Printers and cameras in separate VLANs."""
    return document(by_group("printers", printers), by_group("cameras", cameras, identifier="c"))


class Net:
    """The network of one tenant."""

    def __init__(self, tenant, owner, replica, engines, cell_id, tmp_path):
        self.tenant, self.id, self.owner, self.replica = tenant, tenant.id, owner, replica
        self.cell_id, self.engines = cell_id, engines
        self._policies, self._version, self._sessions = CompiledPolicies(), 0, 0
        self.policy_id = None

    @contextmanager
    def scope(self, role="app"):
        with session_scope(TenantScope(self.id), engine=getattr(self.engines, role)) as session:
            yield session

    def call(self, function, **given):
        with self.scope() as session:
            return function(session, actor=ACTOR, tenant_id=self.id, **given)

    def decide_by(self, policy):
        self._version += 1
        if self.policy_id is None:
            self.policy_id = add_policy(self.owner, self.tenant, policy)
            self.site_id = add_site(self.owner, self.tenant, policy_id=self.policy_id)
            self.owner.execute("UPDATE tenants SET default_site_id = %s WHERE id = %s", (self.site_id, self.id))
            add_nas(self.owner, self.tenant, self.site_id, identifier=IDENTIFIER)
        else:
            self.owner.execute("UPDATE policy_versions SET status = 'superseded' WHERE tenant_id = %s", (self.id,))
            publish(self.owner, self.tenant, self.policy_id, self._version, policy)

    def add(self, mac, *groups, **more):
        add_endpoint(self.owner, self.tenant, mac, groups=groups, **more)

    def add_user(self, name, *groups):
        user_id = add_user(self.owner, self.tenant, name)
        for group in groups:
            self.owner.execute(
                "INSERT INTO user_groups (tenant_id, name) VALUES (%s, %s) ON CONFLICT DO NOTHING", (self.id, group)
            )
            self.owner.execute(
                "INSERT INTO user_group_members (tenant_id, user_id, group_id) "
                "SELECT tenant_id, %s, id FROM user_groups WHERE tenant_id = %s AND name = %s",
                (user_id, self.id, group),
            )

    def answer(self, mac, *, user="", pairs=(), identifier=IDENTIFIER, method="", tls_version=""):
        """The cell's current decision about this device: (case, outcome).

        The default method is mab, and pap for a user.
        """
        self.replica.catch_up()
        named = [("User-Name", user or mac), ("Calling-Station-Id", mac), ("NAS-Identifier", identifier)]
        request = AccessRequest(
            (*named, ("NAS-IP-Address", ADDRESS), *pairs, ("Admit-Slot", f"slot_{self.tenant.slot}"))
        )
        state = {"TLS-Session-Version": (f"TLS {tls_version}",)} if tls_version else {}
        case = AuthenticationCase(request, method or ("pap" if user else "mab"), state)
        with self.replica.view as view:
            case.locate(LocationCache().find(request, view))
            outcome = decide_case(case, view, self._policies)
        if outcome.needs_passphrase or outcome.passphrase:
            outcome = add_passphrase(case, outcome, lambda endpoint: "a passphrase" if endpoint.sealed_psk else "")
        return case, outcome

    def log(self, case, outcome):
        """Log the decision as the shipper does. Returns its time in epoch microseconds."""
        request, place = case.request, case.place
        with Session(self.engines.owner) as session, session.begin():
            make_row(
                session,
                AuthLog.__table__,
                self.id,
                at=from_microseconds(case.at),
                cell_id=self.cell_id,
                request=json.loads(json.dumps(packet_values(request) | case.facts)),
                reply=[list(pair) for pair in outcome.reply],
                policy_id=UUID(outcome.policy_id) if outcome.policy_id else None,
                site_id=UUID(place.site_id) if place.site_id else None,
                nas_id=UUID(place.nas_id) if place.nas_id else None,
                nas_address=request.nas_address,
                nas_identifier=request.nas_identifier,
                nas_port=request.nas_port,
                mac=request.mac or None,
                identity=case.identity,
                method=case.method,
                certificate_serial=first_value(case.certificate, "TLS-Client-Cert-Serial"),
                tls_version=case.tls_version,
                **{name: getattr(outcome, name) for name in _OUTCOME},
            )
        return case.at

    def join(self, mac, *, class_=None, minutes_ago=0, **queued_requests):
        """Admit the device and begin its session. Returns the session's id."""
        case, outcome = self.answer(mac, **queued_requests)
        assert outcome.permitted, outcome
        at = self.log(case, outcome)
        return self.begin(mac, encode_class(at) if class_ is None else class_, case.identity, minutes_ago)

    def begin(self, mac, class_, identity, minutes_ago=0):
        self._sessions += 1
        (row,) = self.owner.execute(
            "INSERT INTO sessions (tenant_id, nas_key, session_id, mac_key, mac, started_at, updated_at, nas_address, "
            "identity, class) VALUES (%s, %s, %s, %s, %s, %s, now(), %s, %s, %s) RETURNING id",
            (
                *(self.id, f"{IDENTIFIER}|{ADDRESS}", f"s{self._sessions}", mac, mac),
                *(utc_now() - timedelta(minutes=minutes_ago), ADDRESS, identity, class_),
            ),
        ).fetchone()
        return row

    def end(self, row):
        self.owner.execute("UPDATE sessions SET stopped_at = now() WHERE id = %s", (row,))

    def follow(self):
        """Apply every change in the cell."""
        self.replica.catch_up()
        with session_scope(CellScope(self.cell_id), engine=self.engines.cell) as session:
            session.execute(
                text("UPDATE cells SET replica_position = pg_current_snapshot()::text, replica_position_at = now()")
            )

    def collect(self):
        with session_scope(PlatformScope(), engine=self.engines.worker) as session:
            session.execute(text("SELECT collect_redecision_marks()"))
        later = "noun IN ('late', 'session') OR noun LIKE '%-again'"
        self.owner.execute(f"UPDATE redecision_marks SET due_at = now() WHERE NOT ({later})")

    def turn(self):
        with self.scope("worker") as session:
            return runner.advance_tenant(session, tenant_id=self.id)

    def settle(self):
        """Apply, collect and process the changes."""
        self.follow()
        self.collect()
        while self.turn():
            continue
        self.wait()
        self.turn()

    def publish(self, policy):
        """Publish the policy, and process this change."""
        self.decide_by(policy)
        self.settle()

    def wait(self):
        """Advance the clock of the request rate limiter by one minute."""
        self.owner.execute("UPDATE redecisions SET fed_at = fed_at - interval '1 minute'")

    def forget_marks(self):
        self.settle()
        self.owner.execute("DELETE FROM redecision_marks")
        for table in ("redecisions", "redecision_items", "coa_requests"):
            self.owner.execute(f"DELETE FROM {table}")

    @property
    def queued_requests(self):
        """The queued requests as {session: kind}."""
        with self.scope() as session:
            rows = session.query(CoaRequest).filter(CoaRequest.state == "queued").all()
            return {row.session_row: row.kind for row in rows}

    @property
    def runs(self):
        with self.scope() as session:
            return [service.redecision_row(session, run) for run in session.query(Redecision).order_by(Redecision.id)]

    @property
    def items(self):
        with self.scope() as session:
            return {row.session_row: row.action for row in session.query(RedecisionItem)}


@pytest.fixture
@snapshotted
def platform(app_engine, cell_engine):
    return make_platform(app_engine, cell_engine, slots=4)


@pytest.fixture
def owner(database, platform):
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def replica(platform, cell_engine, tmp_path):
    replica = Replica(platform.cell_id, cell_engine, tmp_path / "replica")
    yield replica
    replica.writer.close()


@pytest.fixture
def net_of(standing, app_engine, platform, owner, replica, engines, tmp_path):
    def net_of(slug):
        made = standing(make_tenant, app_engine, platform, slug)
        (slot,) = owner.execute("SELECT number FROM slots WHERE tenant_id = %s", (made.id,)).fetchone()
        return Net(Tenant(made.id, made.number, slot), owner, replica, engines, platform.cell_id, tmp_path)

    return net_of


@pytest.fixture
def net(net_of, upload):
    return net_of("alpha")


@pytest.fixture
def office(net):
    """A printer and a camera in separate VLANs: {name: session}."""
    net.decide_by(office_policy())
    net.add(PRINTER, "printers")
    net.add(CAMERA, "cameras")
    sessions = {"printer": net.join(PRINTER), "camera": net.join(CAMERA)}
    net.forget_marks()
    return sessions


@pytest.fixture
def crowd(net):
    """More devices than a run may disconnect without approval."""
    net.decide_by(document(by_group("printers", "20")))
    macs = [f"00a0c00001{number:02x}" for number in range(MIN_CEILING + 2)]
    for mac in macs:
        net.add(mac, "printers")
    sessions = [net.join(mac) for mac in macs]
    net.forget_marks()
    return sessions
