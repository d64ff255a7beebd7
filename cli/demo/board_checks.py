"""Checks of the board: expected responses of each tenant's cell to real supplicants and NASes."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from cli.demo import policy
from cli.demo.certificate_status_checks import status_checks
from cli.demo.checks import SILENCE, Check, Evidence, Observation, describe_eap_result, describe_response
from cli.demo.credentials import Credential
from cli.demo.seed import GUEST_USER, STAFF_USER, Demo, DemoTenant, device_network
from cli.demo.tools import (
    RadiusServer,
    ask_without_message_authenticator,
    demo_source_attributes,
    md5_supplicant,
    peap_supplicant,
    run_eapol_test,
    run_radclient,
    tls_supplicant,
)
from nac.kit.mac import display_mac
from radius.agent.shipping.conversations import ABANDONED_AFTER_MICROSECONDS

# Seconds to wait for a response after the reject delay. After this time, the check reports no response.
_SILENCE_SECONDS = 1
_PATIENCE_SECONDS = 4
_REAUTHENTICATIONS = 3
_ABANDONED_SECONDS = ABANDONED_AFTER_MICROSECONDS / 1e6

_PRINTER = f"permit VLAN {policy.PRINTER_VLAN}"
_DEVICE = f"permit VLAN {policy.DEVICE_VLAN}, {policy.SESSION_SECONDS} s, keys"
_STAFF = f"permit VLAN {policy.STAFF_VLAN}"
_EAP_REJECT = "reject, EAP-Failure"
_NAS = ("NAS-Identifier", "demo-switch")

# Formats of Cisco, Aruba, HP, Juniper and others (see nac.kit.mac).
_NOTATIONS: tuple[Callable[[str], str], ...] = (
    lambda mac: display_mac(mac).upper().replace(":", "-"),
    display_mac,
    lambda mac: f"{mac[:4]}.{mac[4:8]}.{mac[8:]}",
    lambda mac: f"{mac[:6]}-{mac[6:]}",
    lambda mac: mac,
    str.upper,
)


def all_checks(demo: Demo) -> list[Check]:
    checks = []
    for tenant in demo.tenants:
        other = next(candidate for candidate in demo.tenants if candidate is not tenant)
        checks += [*_mab_checks(tenant, other), *_certificate_checks(tenant, other, demo.stranger)]
        checks += [*_password_checks(tenant), *_protocol_checks(tenant, other), *status_checks(tenant, other)]
    return checks


def _mab_checks(tenant: DemoTenant, other: DemoTenant) -> Iterator[Check]:
    devices = tenant.devices
    for notation in _NOTATIONS:
        mac = notation(devices.printer)
        yield _radclient_check(tenant, "MAB by PAP", f"printer {mac}", _PRINTER, "rule-permitted", _mac_request(mac))
    mac = _NOTATIONS[0](devices.printer)
    chap = _mac_request(mac, "CHAP-Password")
    yield _radclient_check(tenant, "MAB by CHAP", f"printer {mac}", _PRINTER, "rule-permitted", chap)
    yield _md5_check(tenant, "printer", devices.printer, _PRINTER, "rule-permitted")
    for what, address, reason in (
        ("unknown", devices.unknown, "unknown-mac"),
        (f"{other.slug}'s", other.devices.printer, "unknown-mac"),
        ("blocked", devices.blocked, "endpoint-blocked"),
        ("quarantine", devices.quarantined, "rule-denied"),
    ):
        mac = _NOTATIONS[0](address)
        yield _radclient_check(tenant, "MAB by PAP", f"{what} {mac}", "reject", reason, _mac_request(mac))
    yield _md5_check(tenant, "unknown", devices.unknown, _EAP_REJECT, "unknown-mac")
    mac = _NOTATIONS[0](devices.printer)
    imitated = _mac_request(mac) | {"Calling-Station-Id": display_mac(devices.laptop)}
    yield _radclient_check(tenant, "MAB by PAP", f"imitated {mac}", "reject", "mac-mismatch", imitated)


def _mac_request(mac: str, password: str = "User-Password") -> dict[str, str]:  # noqa: S107 -- an attribute's name
    return {"User-Name": mac, password: mac, "Calling-Station-Id": mac, "Service-Type": "Call-Check"}


def _certificate_checks(tenant: DemoTenant, other: DemoTenant, stranger: Credential) -> Iterator[Check]:
    def supplicant(credential: Credential, trusting: DemoTenant = tenant) -> dict[str, str]:
        return tls_supplicant(
            identity=credential.identity,
            trusted=trusting.ca,
            certificate=credential.certificate,
            key=credential.key,
            server_name=tenant.server_name,
        )

    good = device_network(tenant)
    for version in ("1.2", "1.3"):
        network = good | {"phase1": _only_tls_versions(version)}
        yield replace(
            _eapol_check(
                tenant,
                f"EAP-TLS {version}",
                "valid certificate",
                f"{_DEVICE}, TLS {version}",
                "rule-permitted",
                network,
            ),
            describe=_tls_version,
        )
        again = f"{_REAUTHENTICATIONS + 1} x {_DEVICE}, {_REAUTHENTICATIONS} resumed"
        yield replace(
            _eapol_check(
                tenant,
                f"EAP-TLS {version}, resumed",
                "reconnects",
                again,
                "rule-permitted",
                network,
                _REAUTHENTICATIONS,
            ),
            describe=_resumed,
            records=_REAUTHENTICATIONS + 1,
        )
    for sent, reason, network in (
        ("revoked certificate", "certificate-revoked", supplicant(tenant.revoked)),
        ("expired certificate", "certificate-expired", supplicant(tenant.expired)),
        ("next month's certificate", "certificate-not-yet-valid", supplicant(tenant.early)),
        ("server's certificate", "wrong-key-usage", supplicant(tenant.misused)),
        (f"{other.slug}'s certificate", "wrong-tenant-ca", supplicant(other.device)),
        ("nobody's certificate", "unknown-ca", supplicant(stranger)),
        (f"trusts only {other.slug}'s root", "supplicant-alert", supplicant(tenant.device, other)),
        (
            "at most TLS 1.1",
            "tls-version",
            good | {"phase1": _only_tls_versions("1.0", "1.1"), "openssl_ciphers": _OLD_CIPHERS},
        ),
        (
            "only CBC ciphers",
            "no-common-cipher",
            good | {"phase1": _only_tls_versions("1.2"), "openssl_ciphers": '"AES128-SHA"'},
        ),
    ):
        yield _eapol_check(tenant, "EAP-TLS", sent, _EAP_REJECT, reason, network)
    silent = _eapol_check(
        tenant, "EAP-TLS", _NEVER_ANSWERS, SILENCE, "conversation-abandoned", good | {"phase1": _ASKS_ITS_USER}
    )
    yield replace(silent, recorded_after_seconds=_ABANDONED_SECONDS)
    peap = peap_supplicant(STAFF_USER, tenant.staff_password)
    yield _eapol_check(tenant, "PEAP", "only PEAP", _EAP_REJECT, "method-not-offered", peap)


_OLD_CIPHERS = '"DEFAULT@SECLEVEL=0"'
# Settings of wpa_supplicant.conf(5) for a device that asks its user about the server certificate. The user does not
# answer.
_ASKS_ITS_USER = '"tls_ext_cert_check=1"'
_NEVER_ANSWERS = "no response to our certificate"


def _only_tls_versions(*versions: str) -> str:
    return '"' + " ".join(f"tls_disable_tlsv1_{minor}={int(f'1.{minor}' not in versions)}" for minor in range(4)) + '"'


def _tls_version(evidence: Evidence) -> str:
    return "".join(f", TLS {decision.tls_version}" for decision in evidence.decisions)


def _resumed(evidence: Evidence) -> str:
    """Return a text with the number of resumed TLS sessions in the check's rows of auth_log, except the first row."""
    return f", {sum(decision.resumed for decision in evidence.decisions[1:])} resumed"


def _password_checks(tenant: DemoTenant) -> Iterator[Check]:
    right = tenant.staff_password
    pap, chap = "User-Password", "CHAP-Password"
    for name, sent, user, attribute, password, expected, reason in (
        ("PAP", "user of a group", STAFF_USER, pap, right, _STAFF, "rule-permitted"),
        ("CHAP", "user of a group", STAFF_USER, chap, right, _STAFF, "rule-permitted"),
        ("PAP", "wrong password", STAFF_USER, pap, f"{right}?", "reject", "wrong-password"),
        ("CHAP", "wrong password", STAFF_USER, chap, f"{right}?", "reject", "wrong-password"),
        ("PAP", "user of no group", GUEST_USER, pap, tenant.guest_password, "reject", "fallback-denied"),
        ("PAP", "unknown user", "nobody", pap, right, "reject", "unknown-user"),
    ):
        yield _radclient_check(tenant, name, sent, expected, reason, {"User-Name": user, attribute: password})


def _protocol_checks(tenant: DemoTenant, other: DemoTenant) -> Iterator[Check]:
    mac = _NOTATIONS[0](tenant.devices.printer)
    foreign = replace(tenant.server, secret=other.server.secret)
    request = _mac_request(mac) | demo_source_attributes(foreign)
    silence = _radclient_check(
        tenant, "MAB by PAP", f"with {other.slug}'s secret", SILENCE, "", request, server=foreign
    )
    yield replace(silence, records=0)
    yield Check(
        tenant.slug,
        "MAB by PAP",
        "no Message-Authenticator",
        SILENCE,
        "",
        lambda mark: _ask_as_old_nas(tenant, mac, mark),
        records=0,
    )
    yield _status_check(tenant, "authentication port", tenant.server.auth_port)
    yield _status_check(tenant, "accounting port", tenant.server.acct_port)
    yield Check(
        tenant.slug,
        "accounting",
        "Start, Interim-Update, Stop",
        "3 acknowledged, 3 logged, session closed",
        "",
        lambda mark: _send_accounting(tenant, mark),
        describe=_describe_accounting,
        records=3,
    )


def _ask_as_old_nas(tenant: DemoTenant, mac: str, mark: str) -> Observation:
    started = time.perf_counter()
    answered = ask_without_message_authenticator(
        tenant.server,
        user_name=mac,
        password=mac,
        port_id=mark,
        timeout_seconds=tenant.reject_delay_seconds + _SILENCE_SECONDS,
    )
    return Observation("an answer" if answered else SILENCE, time.perf_counter() - started)


def _status_check(tenant: DemoTenant, sent: str, port: int) -> Check:
    def act(mark: str) -> Observation:
        started = time.perf_counter()
        answer = run_radclient(tenant.server, "status", [], port=port)
        return Observation("an answer" if answer else SILENCE, time.perf_counter() - started)

    return Check(tenant.slug, "Status-Server", sent, "an answer", "", act, records=0)


_USAGE: tuple[tuple[str, dict[str, str]], ...] = (
    ("Start", {}),
    ("Interim-Update", {"Acct-Session-Time": "60", "Acct-Input-Octets": "1000", "Acct-Output-Octets": "5000"}),
    (
        "Stop",
        {
            "Acct-Session-Time": "90",
            "Acct-Input-Octets": "1500",
            "Acct-Output-Octets": "7500",
            "Acct-Terminate-Cause": "User-Request",
        },
    ),
)
_EXPECTED_SESSION = (90, 1500, 7500, "User-Request")


def _send_accounting(tenant: DemoTenant, mark: str) -> Observation:
    mac = display_mac(tenant.devices.printer)
    started = time.perf_counter()
    acknowledged = 0
    for status, usage in _USAGE:
        attributes = {"User-Name": mac, "Calling-Station-Id": mac, "Acct-Session-Id": mark, "Acct-Status-Type": status}
        answer = run_radclient(tenant.server, "acct", [_NAS, *(attributes | usage).items()])
        acknowledged += describe_response(answer) == "acknowledged"
    return Observation(f"{acknowledged} acknowledged", time.perf_counter() - started)


def _describe_accounting(evidence: Evidence) -> str:
    logged = [record.status_type for record in evidence.accounting]
    expected = [status for status, _ in _USAGE]
    logged_text = f", {len(logged)} logged" + ("" if logged == expected else f" ({', '.join(logged)})")
    if len(evidence.sessions) != 1:
        return f"{logged_text}, {len(evidence.sessions)} sessions"
    stay = evidence.sessions[0]
    if stay.stopped_at is None:
        return f"{logged_text}, session open"
    counted = (stay.session_seconds, stay.input_octets, stay.output_octets, stay.terminate_cause)
    return f"{logged_text}, session {'closed' if counted == _EXPECTED_SESSION else f'closed with {counted}'}"


def _radclient_check(
    tenant: DemoTenant,
    name: str,
    sent: str,
    expected: str,
    reason: str,
    request: Mapping[str, str],
    *,
    server: RadiusServer | None = None,
) -> Check:
    def act(mark: str) -> Observation:
        attributes = [_NAS, ("NAS-Port-Id", mark), *request.items()]
        patience = _SILENCE_SECONDS if expected == SILENCE else _PATIENCE_SECONDS
        started = time.perf_counter()
        answer = run_radclient(
            server or tenant.server,
            "auth",
            attributes,
            timeout_seconds=tenant.reject_delay_seconds + patience,
        )
        return Observation(describe_response(answer), time.perf_counter() - started)

    return Check(tenant.slug, name, sent, expected, reason, act)


def _eapol_check(
    tenant: DemoTenant,
    name: str,
    sent: str,
    expected: str,
    reason: str,
    network: Mapping[str, str],
    reauthentications: int = 0,
) -> Check:
    def act(mark: str) -> Observation:
        mac = display_mac(tenant.devices.laptop)
        result = run_eapol_test(
            tenant.server,
            network,
            mac=mac,
            port_id=mark,
            reauthentications=reauthentications,
            timeout_seconds=tenant.reject_delay_seconds + _PATIENCE_SECONDS,
        )
        return Observation(describe_eap_result(result), result.seconds)

    return Check(tenant.slug, name, sent, expected, reason, act)


def _md5_check(tenant: DemoTenant, what: str, mac: str, expected: str, reason: str) -> Check:
    def act(mark: str) -> Observation:
        result = run_eapol_test(
            tenant.server,
            md5_supplicant(mac),
            mac=display_mac(mac),
            port_id=mark,
            timeout_seconds=tenant.reject_delay_seconds + _PATIENCE_SECONDS,
        )
        return Observation(describe_eap_result(result, keys=False), result.seconds)

    return Check(tenant.slug, "MAB by EAP-MD5", f"{what} {mac}", expected, reason, act)
