"""A tenant of the running instance with one switch, and devices for which its policy has different results."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
    # The session ends and the device reauthenticates (RFC 3580 3.17). One device for each test that revokes a
    # certificate.
    "kiosk": _ASKED_AGAIN,
    "kiosk-1.2": _ASKED_AGAIN,
    "kiosk-1.3": _ASKED_AGAIN,
    # The session ends and the device is disconnected.
    "visitor": {"vlan": LAB_VLAN, "reply": [_TIMEOUT]},
    # The switch does not have this VLAN.
    "traveller": {"vlan": "99"},
}
# Results by the group of the user.
_STAFF = {
    "id": "staff",
    "name": "Staff",
    "when": {"attribute": "user.group", "operator": "equals", "value": "staff"},
    "then": {"verdict": "permit", "vlan": LAB_VLAN},
}
PERSON, PASSWORD = "anna", "correct horse battery"
# Certificates that no rule admits.
_OTHERS = ("stranger",)


def document(**others: Any) -> dict[str, object]:
    """The policy of the office. `others` replaces the outcomes of these rules, and None omits a rule."""
    outcomes = {name: outcome for name, outcome in {**_OUTCOMES, **others}.items() if outcome is not None}
    rules = [
        {
            "id": name,
            "name": f"The {name}",
            "when": {"attribute": "certificate.common_name", "operator": "equals", "value": name},
            "then": {"verdict": "permit", **outcome},
        }
        for name, outcome in outcomes.items()
    ]
    return {"rules": [*rules, _STAFF], "fallback": {"verdict": "deny"}}


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
            nases.create_nas(
                session,
                actor=ACTOR,
                tenant_id=tenant.id,
                site_id=site.id,
                name="Switch 1",
                identifier=IDENTIFIER,
                seal=installation.sealer.seal,
            )
            tenants.update_method_offer(session, actor=ACTOR, tenant_id=tenant.id, offer=MethodOffer(METHODS, None))
            USER_GROUPS.create(session, actor=ACTOR, tenant_id=tenant.id, name="staff")
            users.create_user(
                session,
                actor=ACTOR,
                tenant_id=tenant.id,
                name=PERSON,
                password=PASSWORD,
                groups=["staff"],
                seal_for_mschap=installation.sealer.seal,
            )
            policy = policies.create_policy(session, actor=ACTOR, tenant_id=tenant.id, slug="wired")
            policies.save_draft(session, actor=ACTOR, tenant_id=tenant.id, slug="wired", document=document())
            policies.publish_policy(session, actor=ACTOR, tenant_id=tenant.id, slug="wired")
            site_settings.assign_policy(session, actor=ACTOR, tenant_id=tenant.id, slug=site.slug, policy_id=policy.id)
        self.clients = {name: self._issue(name) for name in (*_OUTCOMES, *_OTHERS)}
        self.authorities = RootFile(folder / "ca.pem")

    def _issue(self, name: str) -> ClientFiles:
        with session_scope(TenantScope(self.tenant_id), engine=self._instance.installation.engine) as session:
            issued = issue_client(
                session,
                actor=ACTOR,
                tenant_id=self.tenant_id,
                profile="eap-client-device",
                common_name=name,
                signing=self._instance.installation.signing,
                now=utc_now(),
            )
            xact = cells.get_current_xact(session)
        self._wait_until_live(xact)
        files = build_pem_files(issued)
        chain, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        chain.write_bytes(files["cert"])
        key.write_bytes(files["key"])
        (self._folder / "ca.pem").write_bytes(files["ca"])
        return ClientFiles(name, issued.certificate, chain, key)

    def _wait_until_live(self, xact: str) -> None:
        cells.wait_until_live(
            TenantScope(self.tenant_id),
            tenant_id=self.tenant_id,
            xact=xact,
            timeout_seconds=60,
            engine=self._instance.installation.engine,
        )

    def revoke(self, name: str) -> None:
        """Revoke the certificate. Returns when the cell has applied it."""
        with session_scope(TenantScope(self.tenant_id), engine=self._instance.installation.engine) as session:
            certificates.revoke_certificate(
                session,
                actor=ACTOR,
                tenant_id=self.tenant_id,
                serial=self.clients[name].serial,
                reason="keyCompromise",
                now=utc_now(),
            )
            xact = cells.get_current_xact(session)
        self._wait_until_live(xact)

    def is_known(self, mac: str) -> bool:
        """Whether the device is among the endpoints, which include every seen device."""
        found = self._instance.query("SELECT 1 FROM endpoints WHERE tenant_id = %s AND mac = %s", self.tenant_id, mac)
        return bool(found)

    def block(self, mac: str) -> None:
        """Block the device. Returns when the change is committed."""
        with session_scope(TenantScope(self.tenant_id), engine=self._instance.installation.engine) as session:
            endpoints.block_endpoint(session, actor=ACTOR, tenant_id=self.tenant_id, mac=mac)

    def publish(self, document: dict[str, object]) -> None:
        """Publish the policy. Returns when the change is committed."""
        named = {"actor": ACTOR, "tenant_id": self.tenant_id, "slug": "wired"}
        with session_scope(TenantScope(self.tenant_id), engine=self._instance.installation.engine) as session:
            policies.save_draft(session, document=document, **named)
            policies.publish_policy(session, **named)

    def add_session(self, mac: str, session_id: str) -> None:
        """Add a session that the switch does not have."""
        self._instance.query(
            "INSERT INTO sessions (tenant_id, nas_key, session_id, mac_key, mac, started_at, updated_at, nas_address) "
            "VALUES (%s, %s, %s, %s, %s, now(), now(), %s) RETURNING id",
            self.tenant_id,
            f"{IDENTIFIER}|{self.target.host}",
            session_id,
            mac,
            mac,
            self.target.host,
        )

    def coa_requests(self, mac: str, *, state: str) -> Sequence[dict[str, Any]]:
        """CoA requests about the device, oldest first. Waits until the last request is in this state."""
        columns = (
            "kind",
            "reason",
            "state",
            "attempts",
            "retries",
            "step",
            "answer_code",
            "error_cause",
            "detail",
            "asked_by",
        )

        def found() -> list[dict[str, Any]]:
            rows = self._instance.query(
                f"SELECT {', '.join(columns)} FROM coa_requests WHERE tenant_id = %s AND mac = %s::macaddr ORDER BY id",
                self.tenant_id,
                mac,
            )
            return [dict(zip(columns, row, strict=True)) for row in rows]

        until(lambda: bool(found()) and found()[-1]["state"] == state, f"a request is {state}: {found()}")
        return found()

    def admit(self, *arguments: str) -> Any:
        """Run a command for this tenant. Returns the printed JSON."""
        done = self._instance.admit(*arguments, "--tenant", "office", "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    # Records of Admit, after they are in PostgreSQL.

    def decisions(self, mac: str, *, count: int = 1, seconds: float = PATIENCE_SECONDS) -> Sequence[dict[str, Any]]:
        """Rows of auth_log, oldest first. Waits until there are `count` rows."""
        columns = ("permitted", "reason", "detail", "rule_id", "vlan", "method", "tls_version", "resumed", "identity")
        return self._rows("auth_log", columns, mac, count, seconds)

    def accounting(self, mac: str, *, count: int) -> Sequence[dict[str, Any]]:
        """Rows of accounting_log about the device, oldest first. Waits until there are `count` rows."""
        return self._rows(
            "accounting_log", ("status_type", "session_id", "terminate_cause", "identity"), mac, count, PATIENCE_SECONDS
        )

    def _rows(
        self, table: str, columns: Sequence[str], mac: str, count: int, seconds: float
    ) -> Sequence[dict[str, Any]]:
        sql = f"SELECT {', '.join(columns)} FROM {table} WHERE tenant_id = %s AND mac = %s::macaddr ORDER BY at, id"

        def found() -> list[dict[str, Any]]:
            rows = self._instance.query(sql, self.tenant_id, mac)
            return [dict(zip(columns, row, strict=True)) for row in rows]

        until(lambda: len(found()) >= count, f"{count} rows of {mac} in {table}", seconds=seconds)
        return found()

    def switch_accounting(self) -> Sequence[str]:
        """Acct-Status-Type of the records without a device, oldest first."""
        rows = self._instance.query(
            "SELECT status_type FROM accounting_log WHERE tenant_id = %s AND mac IS NULL ORDER BY at, id",
            self.tenant_id,
        )
        return [status for (status,) in rows]

    def open_sessions(self, mac: str) -> int:
        rows = self._instance.query(
            "SELECT count(*) FROM sessions WHERE tenant_id = %s AND mac = %s::macaddr AND stopped_at IS NULL",
            self.tenant_id,
            mac,
        )
        return int(rows[0][0])
