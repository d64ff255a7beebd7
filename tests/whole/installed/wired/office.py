"""A tenant of the running instance with one switch, and devices for which its policy has different results."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from loadtest.radius_client import Target
from nac.cellformat.methods import METHODS, MethodOffer
from nac.certificates import service as certificates
from nac.certificates.issuance import issue_client
from nac.certificates.service import build_pem_files
from nac.inventory.endpoints import service as endpoints
from nac.inventory.groups import USER_GROUPS
from nac.inventory.users import service as users
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.onboarding.provisioning import provision_tenant
from nac.policies import service as policies
from nac.policies import site_settings
from nac.tenancy import msps, sites
from nac.tenancy.cells import service as cells
from nac.tenancy.nases import service as nases
from nac.tenancy.tenants import service as tenants
from tests.polling import PATIENCE_SECONDS, until
from tests.radius.tenants import ClientFiles
from tests.whole.installed.wired.switch import IDENTIFIER
from tests.whole.instance import Instance

ACTOR = "test:wired"
# The VLANs of the switch.
OFFICE_VLAN, LAB_VLAN = "10", "20"
SESSION_SECONDS = 2
_TIMEOUT = {"attribute": "Session-Timeout", "value": str(SESSION_SECONDS)}
_ASKED_AGAIN = {
    "vlan": LAB_VLAN,
    "reply": [_TIMEOUT, {"attribute": "Termination-Action", "value": "RADIUS-Request"}],
}
# Results by the name in the device's certificate.
_OUTCOMES: dict[str, dict[str, Any]] = {
    "laptop": {"vlan": OFFICE_VLAN},
    # The session ends and the device reauthenticates (RFC 3580 3.17). One test revokes its certificate.
    "kiosk": _ASKED_AGAIN,
    "revoked": _ASKED_AGAIN,
    # The session ends and the device is disconnected.
    "visitor": {"vlan": LAB_VLAN, "reply": [_TIMEOUT]},
    # The switch does not have this VLAN.
    "traveller": {"vlan": "99"},
}
PERSON, PASSWORD = "anna", "correct horse battery"
# Certificates that no rule admits.
_OTHERS = ("stranger",)


def document(**others: Any) -> dict[str, object]:
    """The policy of the office. `others` replaces the outcomes of these rules, and None omits a rule."""
    outcomes = {name: outcome for name, outcome in {**_OUTCOMES, **others}.items() if outcome is not None}
    rules = [_rule(name, "certificate.common_name", outcome) for name, outcome in outcomes.items()]
    return {"rules": [*rules, _rule("staff", "user.group", {"vlan": LAB_VLAN})], "fallback": {"verdict": "deny"}}


def _rule(name: str, attribute: str, outcome: dict[str, Any]) -> dict[str, object]:
    when = {"attribute": attribute, "operator": "equals", "value": name}
    return {"id": name, "name": f"The {name}", "when": when, "then": {"verdict": "permit", **outcome}}


class RootFile:
    """The root file of the tenant, in the form that `tests.radius.supplicant` expects."""

    def __init__(self, root_file: Path) -> None:
        self.root_file = root_file


class Office:
    """The tenant with its switch, created through Admit's services. The cell serves it when the constructor returns."""

    def __init__(self, instance: Instance, folder: Path) -> None:
        """Create the tenant. `folder` is for the certificates and keys of the devices."""
        self._instance = instance
        self._folder = folder
        installation = instance.installation
        with session_scope(PlatformScope(), engine=installation.engine) as session:
            msp = msps.create_msp(session, actor=ACTOR, slug="wired", name="Wired")
            tenant = provision_tenant(session, actor=ACTOR, slug="office", msp_id=msp.id, signing=installation.signing)
            self.tenant_id = tenant.id
            slot = cells.require_slot(session, tenant_id=tenant.id)
            secret = installation.sealer.open(slot.secret_sealed, cells.slot_secret_context(slot))
            self.target = Target(installation.settings.listen_address, slot.auth_port, slot.acct_port, secret)
            site = sites.require_default(session, tenant_id=tenant.id)
            by, seal = {"actor": ACTOR, "tenant_id": tenant.id}, installation.sealer.seal
            nases.create_nas(session, **by, site_id=site.id, name="Switch 1", identifier=IDENTIFIER, seal=seal)
            tenants.update_method_offer(session, **by, offer=MethodOffer(METHODS, None))
            USER_GROUPS.create(session, **by, name="staff")
            given = {"name": PERSON, "password": PASSWORD, "groups": ["staff"]}
            users.create_user(session, **by, **given, seal_for_mschap=seal)
            policy = policies.create_policy(session, **by, slug="wired")
            policies.save_draft(session, **by, slug="wired", document=document())
            policies.publish_policy(session, **by, slug="wired")
            site_settings.assign_policy(session, **by, slug=site.slug, policy_id=policy.id)
        self.clients = {name: self._issue(name) for name in (*_OUTCOMES, *_OTHERS)}
        self.authorities = RootFile(folder / "ca.pem")

    @contextmanager
    def _change(self) -> Iterator[tuple[Session, dict[str, Any]]]:
        """A session and the usual arguments of a service."""
        with session_scope(TenantScope(self.tenant_id), engine=self._instance.installation.engine) as session:
            yield session, {"actor": ACTOR, "tenant_id": self.tenant_id}

    def _issue(self, name: str) -> ClientFiles:
        signing = self._instance.installation.signing
        with self._change() as (session, by):
            given = {"profile": "eap-client-device", "common_name": name}
            issued = issue_client(session, **by, **given, signing=signing, now=utc_now())
            xact = cells.get_current_xact(session)
        self._wait_until_live(xact)
        files = build_pem_files(issued)
        chain, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        for path, kind in ((chain, "cert"), (key, "key"), (self._folder / "ca.pem", "ca")):
            path.write_bytes(files[kind])
        return ClientFiles(name, issued.certificate, chain, key)

    def _wait_until_live(self, xact: str) -> None:
        given = {"tenant_id": self.tenant_id, "engine": self._instance.installation.engine}
        cells.wait_until_live(TenantScope(self.tenant_id), xact=xact, timeout_seconds=60, **given)

    def revoke(self, name: str) -> None:
        """Revoke the certificate. Returns when the cell has applied it."""
        with self._change() as (session, by):
            given = {"serial": self.clients[name].serial, "reason": "keyCompromise"}
            certificates.revoke_certificate(session, **by, **given, now=utc_now())
            xact = cells.get_current_xact(session)
        self._wait_until_live(xact)

    def block(self, mac: str) -> None:
        """Block the device. Returns when the change is committed."""
        with self._change() as (session, by):
            endpoints.block_endpoint(session, **by, mac=mac)

    def publish(self, document: dict[str, object]) -> None:
        """Publish the policy. Returns when the change is committed."""
        with self._change() as (session, by):
            policies.save_draft(session, **by, slug="wired", document=document)
            policies.publish_policy(session, **by, slug="wired")

    def add_session(self, mac: str, session_id: str) -> None:
        """Add a session that the switch does not have."""
        self._instance.query(
            "INSERT INTO sessions (tenant_id, nas_key, session_id, mac_key, mac, started_at, updated_at, nas_address) "
            "VALUES (%s, %s, %s, %s, %s, now(), now(), %s) RETURNING id",
            *(self.tenant_id, f"{IDENTIFIER}|{self.target.host}", session_id, mac, mac, self.target.host),
        )

    def admit(self, *arguments: str) -> Any:
        """Run a command for this tenant. Returns the printed JSON."""
        done = self._instance.admit(*arguments, "--tenant", "office", "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    # Records of Admit, after they are in PostgreSQL.

    def _rows(self, table: str, columns: str, mac: str, order: str = "id") -> list[dict[str, Any]]:
        """Rows about the device."""
        sql = f"SELECT {columns} FROM {table} WHERE tenant_id = %s AND mac = %s::macaddr ORDER BY {order}"
        rows = self._instance.query(sql, self.tenant_id, mac)
        return [dict(zip(columns.split(", "), row, strict=True)) for row in rows]

    def _await_rows(self, table: str, columns: str, mac: str, count: int, seconds: float) -> list[dict[str, Any]]:
        def found() -> list[dict[str, Any]]:
            return self._rows(table, columns, mac, order="at, id")

        until(lambda: len(found()) >= count, f"{count} rows of {mac} in {table}", seconds=seconds)
        return found()

    def is_known(self, mac: str) -> bool:
        """Whether the device is among the endpoints, which include every seen device."""
        return bool(self._rows("endpoints", "id", mac))

    def open_sessions(self, mac: str) -> int:
        return sum(row["stopped_at"] is None for row in self._rows("sessions", "stopped_at", mac))

    def coa_requests(self, mac: str, *, state: str) -> Sequence[dict[str, Any]]:
        """CoA requests about the device, oldest first. Waits until the last request is in this state."""
        columns = "kind, reason, state, attempts, retries, step, answer_code, error_cause, detail, requested_by"

        def found() -> list[dict[str, Any]]:
            return self._rows("coa_requests", columns, mac)

        until(lambda: bool(found()) and found()[-1]["state"] == state, f"a request is {state}: {found()}")
        return found()

    def decisions(self, mac: str, *, count: int = 1, seconds: float = PATIENCE_SECONDS) -> Sequence[dict[str, Any]]:
        """Rows of auth_log, oldest first. Waits until there are `count` rows."""
        columns = "permitted, reason, detail, rule_id, vlan, method, tls_version, resumed, identity"
        return self._await_rows("auth_log", columns, mac, count, seconds)

    def accounting(self, mac: str, *, count: int) -> Sequence[dict[str, Any]]:
        """Rows of accounting_log about the device, oldest first. Waits until there are `count` rows."""
        columns = "status_type, session_id, terminate_cause, identity"
        return self._await_rows("accounting_log", columns, mac, count, PATIENCE_SECONDS)

    def switch_accounting(self) -> Sequence[str]:
        """Acct-Status-Type of the records without a device, oldest first."""
        rows = self._instance.query(
            "SELECT status_type FROM accounting_log WHERE tenant_id = %s AND mac IS NULL ORDER BY at, id",
            self.tenant_id,
        )
        return [status for (status,) in rows]
