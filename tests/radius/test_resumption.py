"""Reconnecting with a stored TLS session works every time, and the policy decides each time."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from nac.cellformat.replica.records import CertificateRecord
from nac.kit.radius_packet import ACCESS_REJECT
from pki import der
from tests.pki import raw_certificates
from tests.polling import until
from tests.radius.devices import VERSIONS, Device, is_resumed
from tests.radius.odd_certificates import DNS, EMAIL, URI, general_name, odd_client, upn
from tests.radius.supplicant import TLS_1_2, TLS_1_3, eap_tls

both = pytest.mark.parametrize("version", VERSIONS)


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
@pytest.mark.parametrize("slug", ["alpha", "bravo"])
def test_seven_reconnects_all_resume(cell, slug, version):
    tenant = cell.tenants[slug]
    seen = eap_tls(tenant, tenant.clients["laptop"], version, reauthentications=7).run()
    assert seen.accepted
    assert seen.vlans == ["10"] * 8
    assert seen.resumptions == 7
    first, *others = cell.decisions()
    assert [record.resumed for record in (first, *others)] == [False] + [True] * 7
    assert {record.tls_version for record in others} == {version}
    assert {record.certificate_serial for record in others} == {tenant.clients["laptop"].serial}
    # Rules read the same certificate as in the full handshake.
    for record in others:
        assert record.request == {**first.request, "tls.resumed": (True,)}


def revoke_spare(cell):
    cell.put_certificate(cell.alpha.clients["spare"], status="revoked")


@both
@pytest.mark.parametrize(
    ("change", "reason", "resumed"),
    [
        (revoke_spare, "certificate-revoked", True),
        (lambda cell: cell.set_slot(status="suspended"), "tenant-suspended", False),
    ],
    ids=["revoked", "suspended"],
)
def test_certificate_or_tenant_refused_after_a_visit_is_rejected(cell, version, change, reason, resumed):
    device = Device(cell.alpha.clients["spare"], version)
    device.visit(cell.alpha, vlan="10")
    assert is_resumed(device.visit(cell.alpha, vlan="10"))
    change(cell)
    assert is_resumed(device.visit(cell.alpha, expected=ACCESS_REJECT)) == resumed
    refused = cell.decisions()[-1]
    assert (refused.permitted, refused.reason, refused.resumed, refused.vlan) == (False, reason, resumed, "")


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
def test_certificate_revoked_during_reconnects_is_rejected(cell, version):
    run = eap_tls(cell.alpha, cell.alpha.clients["spare"], version, reauthentications=100)
    with ThreadPoolExecutor(1) as device:
        running = device.submit(run.run)
        until(lambda: len(cell.decisions()) >= 3, "three decisions")
        revoke_spare(cell)
        seen = running.result()
    *permitted, refused = cell.decisions()
    assert len(permitted) >= 3
    assert all(record.permitted for record in permitted)
    assert (refused.reason, refused.resumed) == ("certificate-revoked", True)
    assert (seen.codes[-1], seen.eap_failure) == ("Access-Reject", True)


@both
def test_policy_changed_between_visits_applies_on_resumption(cell, version):
    device = Device(cell.alpha.clients["laptop"], version)
    device.visit(cell.alpha, vlan="10")
    cell.set_policy({"fallback": {"verdict": "permit", "vlan": "66"}})
    assert is_resumed(device.visit(cell.alpha, vlan="66"))


@both
def test_ticket_of_one_tenant_cannot_resume_at_the_other(cell, version):
    """The conversation continues as a full handshake with a certificate of the other tenant."""
    device = Device(cell.alpha.clients["laptop"], version)
    device.visit(cell.alpha, vlan="10")
    device.change_certificate(cell.bravo.clients["laptop"])
    assert not is_resumed(device.visit(cell.bravo, vlan="10"))
    record = cell.decision(tenant_id=cell.bravo.tenant_id)
    assert (record.permitted, record.resumed) == (True, False)
    assert record.certificate_serial == cell.bravo.clients["laptop"].serial


@both
def test_ticket_and_certificate_are_rejected_at_another_tenant(cell, version):
    device = Device(cell.alpha.clients["laptop"], version)
    device.visit(cell.alpha, vlan="10")
    device.visit(cell.bravo, expected=ACCESS_REJECT)
    record = cell.decision(tenant_id=cell.bravo.tenant_id)
    assert (record.permitted, record.reason, record.resumed) == (False, "wrong-tenant-ca", False)


def common_name(tag, content):
    return [(raw_certificates.COMMON_NAME, tag, content)]


UTF8 = der.UTF8_STRING
MAIL, HOST = general_name(EMAIL, b"anna@corp.example"), general_name(DNS, b"pc1.example")


def name_only(content, text, tag=UTF8):
    """A certificate with only a common name, and its value in rules."""
    return [common_name(tag, content)], b"", {"common_name": (text,)}


# name -> (subject, alternative names, values in rules)
ODD = {
    "beyond ASCII": name_only("café ☕".encode(), "café ☕"),
    "slash and plus": name_only(b"a/CN=b+c", "a/CN=b+c"),
    # Read as octal escapes, these octets are "admin".
    "escapes": name_only(rb"adm\151n", r"adm\151n"),
    "expansion": name_only(b"%{User-Name}", "%{User-Name}"),
    "half an expansion": name_only(b"%{", "%{"),
    "quotes": name_only(b"""a"b'c`""", """a"b'c`"""),
    "line break": name_only(b"a\nb", r"a\x0Ab"),
    "zero byte": name_only(b"admin\0x", r"admin\x00x"),
    "UTF-16": name_only("café".encode("utf-16-be"), "café", der.BMP_STRING),
    "two names": ([common_name(UTF8, b"one"), common_name(UTF8, b"two")], b"", {"common_name": ("one",)}),
    "empty name": ([common_name(UTF8, b"")], b"", {}),
    # For these names, radiusd reports the issuer's common name.
    "no common name": ([[(raw_certificates.ORGANISATION, UTF8, b"Alpha")]], b"", {}),
    "no subject": ([], b"", {}),
    "zero byte in an alternative name": ([], general_name(DNS, b"a\0.example"), {"san.dns": (r"a\x00.example",)}),
    "no more than a principal name": (
        [],
        HOST + upn(b"anna@corp.example"),
        {"san.dns": ("pc1.example",), "san.upn": ("anna@corp.example",)},
    ),
    "no more than a mail address": (
        [],
        HOST + MAIL,
        {"san.dns": ("pc1.example",), "san.email": ("anna@corp.example",)},
    ),
    "no more than a URI": ([], general_name(URI, b"urn:pc1"), {"san.uri": ("urn:pc1",)}),
    "many alternative names": (
        [common_name(UTF8, b"x")],
        HOST + general_name(DNS, b"b.example") + MAIL + general_name(URI, b"urn:x") + upn("ü@b.example".encode()),
        {
            "common_name": ("x",),
            "san.dns": ("pc1.example", "b.example"),
            "san.email": ("anna@corp.example",),
            "san.uri": ("urn:x",),
            "san.upn": ("ü@b.example",),
        },
    ),
    "escapes in alternative names": (
        [common_name(UTF8, b"x")],
        general_name(EMAIL, rb"adm\151n@b.example"),
        {"common_name": ("x",), "san.email": (r"adm\151n@b.example",)},
    ),
}
_NAMES = ("common_name", "san.upn", "san.email", "san.dns", "san.uri")


@pytest.mark.parametrize(
    ("odd", "version"),
    [*((odd, VERSIONS[1]) for odd in ODD.values()), (ODD["many alternative names"], VERSIONS[0])],
    ids=[*ODD, "TLS 1.2"],
)
def test_unusual_name_is_the_same_at_every_visit(cell, odd, version):
    subject, names, expected = odd
    client = odd_client(cell.alpha.authorities, "odd", *subject, names=names)
    cell.put_certificate(client)
    device = Device(client, version)
    assert not is_resumed(device.visit(cell.alpha, vlan="10"))
    assert is_resumed(device.visit(cell.alpha, vlan="10"))
    assert is_resumed(device.visit(cell.alpha, vlan="10"))
    for record in cell.decisions():
        seen = {name: record.request.get(f"certificate.{name}") for name in _NAMES}
        assert seen == dict.fromkeys(_NAMES) | expected
        assert record.request["identity"] == next((expected[name][:1] for name in _NAMES if name in expected), ())
        assert record.request["certificate.eku"] == ("1.3.6.1.5.5.7.3.2",)


@both
@pytest.mark.parametrize(
    ("subject", "names"),
    [
        ([common_name(der.T61_STRING, b"caf\xe9")], b""),
        ([common_name(UTF8, b"x")], general_name(DNS, b"\xe9.example")),
    ],
    ids=["T.61", "alternative name"],
)
def test_name_that_is_not_text_is_rejected(cell, subject, names, version):
    client = odd_client(cell.alpha.authorities, "odd", *subject, names=names)
    cell.put_certificate(client)
    Device(client, version).visit(cell.alpha, expected=ACCESS_REJECT)
    record = cell.decision()
    assert (record.reason, record.method) == ("certificate-invalid", "eap-tls")
    assert "does not parse" in record.detail


@both
def test_certificate_valid_past_2050_resumes_every_time(cell, version):
    """802.1AR device certificates never expire. Their end is a GeneralizedTime."""
    client = odd_client(cell.alpha.authorities, "odd", common_name(UTF8, b"x"), generalized_end=True)
    cell.put_certificate(client)
    device = Device(client, version)
    device.visit(cell.alpha, vlan="10")
    assert [is_resumed(device.visit(cell.alpha, vlan="10")) for _ in range(4)] == [True] * 4


@both
def test_serial_number_of_one_octet_is_found(cell, version):
    client = odd_client(cell.alpha.authorities, "odd", common_name(UTF8, b"x"), serial=5)
    with cell.changes() as batch:
        batch.put_certificate(cell.alpha.number, "05", CertificateRecord("", "suspended", "", "x", "certificateHold"))
    Device(client, version).visit(cell.alpha, expected=ACCESS_REJECT)
    assert cell.decision().reason == "certificate-suspended"


@both
def test_stored_sessions_are_private(cell, version):
    """Stored sessions contain keys. The attribute files do not."""
    Device(cell.alpha.clients["laptop"], version).visit(cell.alpha, vlan="10")
    folder = cell.paths.sessions / f"slot-{cell.alpha.slot}"
    assert folder.stat().st_mode & 0o077 == 0
    sessions = list(folder.glob("*.asn1"))
    assert sessions
    assert [path for path in sessions if path.stat().st_mode & 0o077] == []
    assert list(folder.glob("*.new")) == []
