"""Runs every check, compares results, and stores the board in var/demo/board.json."""

import json
import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import Any

from cli.cluster import superuser_url
from cli.command_context import CommandContext
from cli.demo import policy
from cli.demo.board_checks import all_checks
from cli.demo.checks import PATIENCE_SECONDS, Check, Evidence, Observation, gather_evidence
from cli.demo.credentials import create_est_access, create_scep_access
from cli.demo.files import FileWriter, read_text
from cli.demo.seed import GUEST_USER, STAFF_USER, DemoTenant, seed
from cli.demo.tools import ToolFailed
from cli.layout import CHECKOUT, require_layout
from cli.operation_commands import render_advice
from nac.engine.reasons import get_reason
from nac.kit.clock import utc_now
from nac.kit.mac import display_mac
from nac.kit.settings import Settings

# Number of simultaneous checks. Most of the time, checks wait for the reject delay. A tool needs only 20 ms of
# processor time.
_AT_ONCE = 12
_CLOCK_SLACK = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class CheckResult:
    tenant: str
    name: str
    sent: str
    expected: str
    got: str
    # Expected and actual reason code in auth_log.
    expected_reason: str
    reason: str
    # Advice for a help desk about a reject (nac.engine.reasons); "" for other results.
    title: str
    advice: str
    detail: str
    milliseconds: int
    ok: bool


@dataclass(frozen=True, slots=True)
class Board:
    rows: tuple[CheckResult, ...]
    tenants: tuple[dict[str, Any], ...]
    api_url: str
    # Token of an administrator of the demo's MSP. Each tenant has another token for its own administrator.
    api_token: str
    database_url: str
    # Time of the run in ISO 8601.
    at: str
    # Names of checks that were skipped because they take long.
    left_out: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return bool(self.rows) and all(row.ok for row in self.rows)

    def to_json(self) -> str:
        return json.dumps(asdict(self) | {"ok": self.ok}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Board":
        stored = json.loads(text)
        rows = tuple(CheckResult(**row) for row in stored["rows"])
        stored |= {"rows": rows, "tenants": tuple(stored["tenants"]), "left_out": tuple(stored["left_out"])}
        return cls(**{each.name: stored[each.name] for each in fields(cls)})


def run_board(domain: CommandContext, *, with_long: bool) -> Board:
    """Create missing objects of the demo, run the checks, and store the board.

    Without `with_long`, runs only fast checks.
    """
    demo = seed(domain)
    checks = all_checks(demo)
    tried = [check for check in checks if with_long or not check.takes_long]
    board = Board(
        rows=run_checks(domain, tried),
        tenants=tuple(
            describe_tenant(tenant) | describe_enrolment(domain, tenant) | create_scep_access(domain, tenant.slug)
            for tenant in demo.tenants
        ),
        api_url=domain.settings.api_url,
        api_token=demo.api_token,
        database_url=superuser_url(require_layout()),
        at=utc_now().isoformat(timespec="seconds"),
        left_out=tuple(f"{check.tenant}, {check.name}: {check.sent}" for check in checks if check not in tried),
    )
    writer = FileWriter()
    writer.add(_board_file(domain.settings), board.to_json())
    writer.write()
    return board


def read_last_board(settings: Settings) -> Board | None:
    """Return the last board; None if the file is missing or unreadable."""
    try:
        return Board.from_json(read_text(_board_file(settings)))
    except (ValueError, KeyError, TypeError):
        return None


def _board_file(settings: Settings) -> Path:
    return settings.var_dir / "demo" / "board.json"


def run_checks(domain: CommandContext, checks: list[Check]) -> tuple[CheckResult, ...]:
    """Run the checks, and return the rows of the board in the order of `checks`.

    Checks whose log records arrive last start first.
    """
    since = utc_now() - _CLOCK_SLACK
    run = secrets.token_hex(4)
    marks = [f"demo-{run}-{number}" for number in range(len(checks))]
    plan = sorted(zip(checks, marks, strict=True), key=lambda planned: -planned[0].recorded_after_seconds)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        begun = {mark: pool.submit(_run_check, check, mark) for check, mark in plan}
    patience = PATIENCE_SECONDS + max(check.recorded_after_seconds for check in checks)
    evidence: dict[str, Evidence] = {}
    for slug in dict.fromkeys(check.tenant for check in checks):
        expected = {mark: check.records for check, mark in plan if check.tenant == slug}
        evidence |= gather_evidence(domain, slug, expected, since=since, patience_seconds=patience)
    return tuple(
        compare_result(check, begun[mark].result(), evidence[mark]) for check, mark in zip(checks, marks, strict=True)
    )


def _run_check(check: Check, mark: str) -> Observation:
    try:
        return check.act(mark)
    except ToolFailed as exc:
        return Observation(f"error: {exc}", 0)


def compare_result(check: Check, seen: Observation, evidence: Evidence) -> CheckResult:
    got = seen.got + check.describe(evidence)
    reason = _reason(check, evidence)
    rejected = next((get_reason(decision.reason) for decision in evidence.decisions if not decision.permitted), None)
    return CheckResult(
        tenant=check.tenant,
        name=check.name,
        sent=check.sent,
        expected=check.expected,
        got=got,
        expected_reason=check.reason,
        reason=reason,
        title=rejected.title if rejected else "",
        advice=render_advice(rejected.advice) if rejected else "",
        detail="; ".join(dict.fromkeys(decision.detail for decision in evidence.decisions if decision.detail)),
        milliseconds=round(seen.seconds * 1000),
        ok=got == check.expected and reason == check.reason and evidence.count == check.records,
    )


def _reason(check: Check, evidence: Evidence) -> str:
    """Return the actual reason code, and the number of log records if this number is not as expected."""
    reasons = " and ".join(dict.fromkeys(decision.reason for decision in evidence.decisions))
    if evidence.count == check.records:
        return reasons
    return f"{reasons} ({evidence.count} of {check.records} rows)".strip()


def describe_tenant(tenant: DemoTenant) -> dict[str, Any]:
    """Return the settings of a tenant for RADIUS clients and people."""
    server, devices = tenant.server, tenant.devices
    files = {
        "ca_pem": tenant.ca,
        "issuing_ca_pem": tenant.issuing,
        "client_cert": tenant.device.certificate,
        "client_key": tenant.device.key,
        "revoked_cert": tenant.revoked.certificate,
        "revoked_key": tenant.revoked.key,
        "expired_cert": tenant.expired.certificate,
        "expired_key": tenant.expired.key,
        "not_yet_valid_cert": tenant.early.certificate,
        "not_yet_valid_key": tenant.early.key,
        "wrong_usage_cert": tenant.misused.certificate,
        "wrong_usage_key": tenant.misused.key,
        "eapol_test_conf": tenant.supplicant_file,
    }
    return {
        "slug": tenant.slug,
        "id": str(tenant.tenant_id),
        "tenant_id": str(tenant.tenant_id),
        "api_token": tenant.api_token,
        "radius_host": server.host,
        "auth_port": server.auth_port,
        "acct_port": server.acct_port,
        "radius_secret": server.secret,
        "server_name": tenant.server_name,
        "client_identity": tenant.device.identity,
        "client_vlan": policy.DEVICE_VLAN,
        "mac_permit": display_mac(devices.printer),
        "mac_permit_vlan": policy.PRINTER_VLAN,
        "mac_unknown": display_mac(devices.unknown),
        "mac_blocked": display_mac(devices.blocked),
        "user_name": STAFF_USER,
        "user_password": tenant.staff_password,
        "user_vlan": policy.STAFF_VLAN,
        "guest_name": GUEST_USER,
        "guest_password": tenant.guest_password,
        "ocsp_url": tenant.ocsp_url,
        "crl_url": tenant.crl_url,
    } | {name: relative_to_checkout(path) for name, path in files.items()}


def describe_enrolment(domain: CommandContext, tenant: DemoTenant) -> dict[str, Any]:
    """Return the settings for enrolment at the tenant. Each call creates a new secret."""
    est = create_est_access(domain, tenant.slug, tenant.folder)
    fields = {"est_url": est.url, "est_user": est.user, "est_secret": est.secret}
    return fields | ({"est_ca_pem": relative_to_checkout(est.ca)} if est.ca else {})


def relative_to_checkout(path: Path) -> str:
    """Return the path relative to the checkout; the unchanged path if it is outside the checkout."""
    return str(path.relative_to(CHECKOUT) if path.is_relative_to(CHECKOUT) else path)
