"""Challenges that a tenant's own server checks."""

import base64
import hashlib
import hmac
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from sqlalchemy import Engine, select

from nac.certificates.scep import webhook_client, webhook_config
from nac.certificates.scep.settings import InvalidWebhookSettings, WebhookSettings, check_settings
from nac.certificates.scep.webhook_config import InvalidScepWebhook, ScepWebhookNotFound
from nac.kit.clock import utc_now
from nac.kit.db import TenantScope, session_scope
from nac.kit.outbound.reach import DEFAULT_REACH
from nac.models import AuditEntry, ScepWebhook
from pki.names import read_common_name, read_sans
from tests.factories.certificates import SEALER, Certified
from tests.factories.tenancy import ACTOR
from tests.polling import PATIENCE_SECONDS
from tests.scep.client import BAD_REQUEST, Device, Reply, signing_request
from tests.scep.conftest import Server, issued
from tests.scep.webhook_server import WebhookServer, respond_with

CHALLENGE = "an Intune challenge: opaque, long, not ours"


@pytest.fixture
def hook(tmp_path: Path) -> Iterator[WebhookServer]:
    server = WebhookServer(tmp_path)
    with server.listening():
        yield server


@pytest.fixture
def save(hook: WebhookServer, app_engine: Engine, alpha: Certified) -> Callable[..., str]:
    """Function that saves the settings of the webhook. Returns its secret."""

    def save(**changes: Any) -> str:
        fields: dict[str, Any] = {"url": f"https://localhost:{hook.port}/scep?tenant=alpha"}
        fields |= {"networks": ("127.0.0.0/8", "::1/128"), "ca_certificate": hook.ca_certificate}
        named = {"actor": ACTOR, "tenant_id": alpha.tenant_id, "sealer": SEALER, "now": utc_now()}
        with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
            return webhook_config.set_webhook(session, settings=WebhookSettings(**fields | changes), **named)

    return save


def ask(server: Server, device: Device | None = None, challenge: str = CHALLENGE, **changes: Any) -> Reply:
    return server.enrol(device or Device("laptop"), challenge, **changes)


def test_allowed_device_gets_a_certificate_and_hook_is_notified(save, hook, server):
    secret = save(profile="eap-client-user")
    hook.say = respond_with(decision="allow", common_name="laptop", sans=["upn:ann@corp.example"], more="is ignored")
    device = Device("laptop")
    request = signing_request(device.key, "laptop", CHALLENGE)
    reply = server.ask(device.message(request, server.registration()))
    certificate = reply.certificate(device)
    assert read_common_name(certificate.subject) == "laptop"
    assert [str(item) for item in read_sans(certificate)] == ["upn:ann@corp.example"]
    assert hook.told.wait(PATIENCE_SECONDS)
    asked, told = hook.asked
    assert asked == {
        "version": 1,
        "event": "validate",
        "tenant": "alpha",
        "transaction_id": device.transaction_id,
        "certificate_request": base64.b64encode(request).decode(),
        "caller": {"product": "Admit", "protocol": "scep", "address": ""},
        "challenge": CHALLENGE,
        "common_name": "laptop",
        "sans": [],
    }
    assert {name: told[name] for name in asked if name in told and name != "event"}.items() <= asked.items()
    assert (told["event"], told["serial_number"]) == ("issued", f"{certificate.serial_number:x}")
    assert told["thumbprint_sha256"] == certificate.fingerprint(hashes.SHA256()).hex()
    assert told["thumbprint_sha1"] == certificate.fingerprint(hashes.SHA1()).hex()  # noqa: S303
    assert told["not_after"].endswith("Z")
    assert "challenge" not in told
    for body, headers in hook.raw:
        stamp, signature = headers["Admit-Signature"].removeprefix("t=").split(",v1=")
        expected = hmac.new(secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
        assert signature == expected
        assert abs(utc_now().timestamp() - int(stamp)) < 60


def test_denied_device_gets_only_the_reason(save, hook, server, app_engine, alpha):
    save()
    hook.say = respond_with(decision="deny", reason="The device is not compliant.")
    reply = ask(server)
    assert (reply.status, reply.fail_info, reply.text) == ("2", BAD_REQUEST, "The device is not compliant.")
    assert issued(app_engine, alpha) == 0


def test_only_allowed_names_are_issued(save, hook, server, app_engine, alpha):
    save()
    hook.say = respond_with(decision="allow", common_name="laptop", sans=["dns:laptop.corp.example"])
    assert ask(server, Device("director")).fail_info == BAD_REQUEST
    # Admit notifies the webhook that the issue failed.
    assert (hook.asked[-1]["event"], hook.asked[-1]["code"]) == ("failed", "name-refused")
    assert ask(server, sans=[x509.DNSName("other.corp.example")]).fail_info == BAD_REQUEST
    assert issued(app_engine, alpha) == 0


def test_retransmission_does_not_call_the_webhook_again(save, hook, server):
    save()
    hook.say = respond_with(decision="allow", common_name="laptop")
    device = Device("laptop")
    first = ask(server, device).certificate(device)
    assert hook.told.wait(PATIENCE_SECONDS)
    hook.say = respond_with(decision="deny")
    assert ask(server, device).certificate(device) == first
    assert len(hook.asked) == 2


def test_invalid_webhook_response_denies(save, hook, server, app_engine, alpha):
    save()
    device = Device("laptop")
    endless = b'{"decision":"allow","common_name":"laptop","x":"' + b"x" * 100_000 + b'"}'
    for say in (
        respond_with(500, decision="allow", common_name="laptop"),
        respond_with(201, decision="allow", common_name="laptop"),
        respond_with(decision="perhaps", common_name="laptop"),
        respond_with(common_name="laptop"),
        respond_with(decision="allow"),
        respond_with(decision="allow", sans=["laptop"]),
        respond_with(decision="allow", common_name=7),
        lambda asked: (200, {}, b"no json"),
        lambda asked: (200, {}, b""),
        lambda asked: (200, {}, b"[" * 50_000),
        lambda asked: (307, {"Location": "https://localhost/elsewhere"}, b""),
        lambda asked: (200, {}, endless),
    ):
        hook.say = say
        reply = ask(server, device)
        assert (reply.status, reply.fail_info) == ("2", BAD_REQUEST)
        assert "Try again later" in reply.text
    assert issued(app_engine, alpha) == 0


def test_blocked_webhook_address_never_gets_the_challenge(save, hook, server):
    hook.say = respond_with(decision="allow", common_name="laptop")
    for changes in (
        {"networks": ("10.0.0.0/8",)},
        # The webhook has a certificate of another authority.
        {"ca_certificate": ""},
        # The certificate of the webhook does not include its host name.
        {"url": f"https://127.0.0.1:{hook.port}/"},
        {"url": "https://nowhere.invalid/"},
        {"url": "https://localhost:1/"},
    ):
        save(**changes)
        assert "Try again later" in ask(server).text
    assert hook.asked == []


def test_webhook_address_is_not_logged(save, server, caplog):
    """The address may contain a credential."""
    save(url="https://localhost:1/hook?code=secret-of-the-tenant")
    assert "Try again later" in ask(server).text
    assert "The request to the webhook failed" in caplog.text
    assert "secret-of-the-tenant" not in caplog.text


def test_slow_webhook_calls_are_limited(save, hook, server, monkeypatch):
    monkeypatch.setattr(webhook_client, "_concurrency_limit", webhook_client._ConcurrencyLimit(1))
    save()
    asked, go_on = threading.Event(), threading.Event()

    def slowly(members: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        asked.set()
        assert go_on.wait(4)
        return respond_with(decision="allow", common_name="laptop")(members)

    hook.say = slowly
    first, second = Device("laptop"), Device("laptop")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ask, server, first)
        assert asked.wait(PATIENCE_SECONDS)
        assert "Try again later" in ask(server, second).text
        go_on.set()
        assert waiting.result().certificate(first)
    assert ask(server, second).certificate(second)


def test_request_without_a_challenge_does_not_call_the_webhook(save, hook, server):
    save()
    hook.say = respond_with(decision="allow", common_name="laptop")
    assert ask(server, challenge="").fail_info == BAD_REQUEST
    assert hook.asked == []


def test_one_time_challenges_still_work_and_are_never_sent(save, hook, server, challenge):
    save()
    device = Device()
    assert server.obtain(device, challenge).public_key() == device.key.public_key()
    assert ask(server, challenge=challenge).fail_info == BAD_REQUEST
    assert hook.asked == []


def test_deleted_webhook_is_not_called(save, hook, server, app_engine, alpha):
    save()
    named = {"actor": ACTOR, "tenant_id": alpha.tenant_id}
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        webhook_config.delete_webhook(session, **named)
    assert ask(server).fail_info == BAD_REQUEST
    assert hook.asked == []
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session, pytest.raises(ScepWebhookNotFound):
        webhook_config.delete_webhook(session, **named)


def test_secret_is_resealed_each_time_and_not_audited(save, app_engine, alpha):
    first, second = save(), save(timeout_seconds=2.0)
    assert first != second
    with session_scope(TenantScope(alpha.tenant_id), engine=app_engine) as session:
        [row] = session.scalars(select(ScepWebhook))
        query = select(AuditEntry).where(AuditEntry.action == "scep-webhook.set").order_by(AuditEntry.id)
        entries = session.scalars(query).all()
    assert second.encode() not in row.secret_sealed
    assert [entry.after["timeout_seconds"] for entry in entries] == [5.0, 2.0]
    assert not any(first in str(entry.after) or second in str(entry.after) for entry in entries)


def test_every_settings_error_is_reported(save):
    wrong = {
        "url": "http://user@localhost/",
        "profile": "root",
        "timeout_seconds": 60.0,
        "networks": ("10.0.0.1/8", "here"),
        "ca_certificate": "none",
    }
    with pytest.raises(InvalidWebhookSettings) as refused:
        check_settings(WebhookSettings(**wrong))
    assert [place for place, _ in refused.value.mistakes] == [
        *("url", "profile", "timeout_seconds", "networks", "networks", "ca_certificate")
    ]
    with pytest.raises(InvalidScepWebhook, match=r"not a valid PEM certificate: .*\. See docs/how-to/scep\.md"):
        save(**wrong)


def test_webhook_on_the_platforms_own_host_is_blocked(save, hook, server, app):
    app.state.settings = replace(app.state.settings, outbound_reach=DEFAULT_REACH)
    save()
    hook.say = respond_with(decision="allow", common_name="laptop")
    assert "Try again later" in ask(server).text
    assert hook.asked == []


def test_webhook_cannot_allow_a_radius_server_name(save, hook, server, app_engine, alpha):
    save()
    hook.say = respond_with(decision="allow", common_name="radius.alpha.admit.example")
    assert ask(server, Device("radius.alpha.admit.example")).status == "2"
    assert issued(app_engine, alpha) == 0
