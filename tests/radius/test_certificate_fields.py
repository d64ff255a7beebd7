"""Certificate fields in rules, read from real certificates in full and in resumed handshakes."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from nac.engine.attributes import ATTRIBUTE_CATALOGUE, NAME_PARTS
from nac.kit.radius_packet import ACCESS_REJECT
from pki import der
from radius.module.certificate_fields import certificate_fields, is_certificate_field
from radius.module.tls_sessions import CertificateUnreadable, certificate_attributes
from tests.engine.builders import compare, pinned, policy_of, rule
from tests.pki import raw_certificates
from tests.radius import tenants
from tests.radius.client_certificates import issued_client, subject, template_name, upn
from tests.radius.devices import VERSIONS, Device, is_resumed
from tests.radius.odd_certificates import odd_client
from tests.run_depth import examples

FIELDS = [name for name in ATTRIBUTE_CATALOGUE if is_certificate_field(name)]
OID = x509.ObjectIdentifier
SUBJECT = {
    "CN": "pc1",
    "O": "Acme",
    "OU": ["Staff", "Sales"],
    "C": "DE",
    "ST": "NRW",
    "L": "Bonn",
    "DC": ["example", "acme"],
    "UID": "42",
    "GN": "Anna",
    "SN": "Ohm",
    "title": "Dr",
    "emailAddress": "anna@acme.example",
    "serialNumber": "SN-7",
}
NAMES = (
    x509.DNSName("pc1.acme.example"),
    x509.RFC822Name("pc1@acme.example"),
    x509.UniformResourceIdentifier("urn:device:7"),
    x509.IPAddress(ip_address("192.0.2.7")),
    x509.IPAddress(ip_address("2001:db8::7")),
    upn("pc1$@ad.acme.example"),
)
EXTENSIONS = (
    x509.MSCertificateTemplate(OID("1.3.6.1.4.1.311.21.8.1.2"), 100, 3),
    template_name("Maschine Büro"),
    x509.CertificatePolicies(
        [x509.PolicyInformation(OID("1.3.6.1.4.1.99999.1"), None), x509.PolicyInformation(OID("2.23.140.1.2.1"), None)]
    ),
)


@pytest.fixture(scope="module")
def full(authorities):
    return issued_client(authorities, "full", subject(**SUBJECT), *EXTENSIONS, names=NAMES)


@pytest.fixture(scope="module")
def authorities(tmp_path_factory):
    return tenants.Authorities(tmp_path_factory.mktemp("authorities") / "acme", "Acme")


def fields_of(client, *, at=None, names=FIELDS):
    moment = at or datetime.now(UTC)
    return dict(certificate_fields(tenants.der(client.certificate), names, at=int(moment.timestamp())))


def test_every_field_of_the_catalogue_is_read(authorities, full):
    found = fields_of(full, at=authorities.now + timedelta(hours=1))
    expected = {
        f"certificate.subject.{part}": tuple(value) if isinstance(value, list) else (value,)
        for part, value in SUBJECT.items()
    } | {
        "certificate.issuer.CN": ("Acme Issuing CA",),
        "certificate.issuer.O": ("Acme",),
        "certificate.san.ip": ("192.0.2.7", "2001:db8::7"),
        "certificate.template.oid": ("1.3.6.1.4.1.311.21.8.1.2",),
        "certificate.template.name": ("Maschine Büro",),
        "certificate.policy": ("1.3.6.1.4.1.99999.1", "2.23.140.1.2.1"),
        "certificate.age_days": (1,),
        "certificate.expires_in_days": (29,),
    }
    assert found == expected
    # Issuers are parsed in the way subjects are parsed.
    assert set(FIELDS) - found.keys() <= {f"certificate.issuer.{part}" for part in NAME_PARTS}
    assert fields_of(full, names=["certificate.subject.L"]) == {"certificate.subject.L": ("Bonn",)}


def test_certificate_without_fields_has_only_its_age(authorities):
    found = fields_of(issued_client(authorities, "bare", x509.Name([])))
    assert {name for name in found if "issuer" not in name} == {"certificate.age_days", "certificate.expires_in_days"}


def test_days_are_whole_numbers(authorities):
    begin = datetime(2026, 1, 1, 12, tzinfo=UTC)
    end = begin + timedelta(days=100)
    client = issued_client(authorities, "days", subject(CN="x"), not_before=begin, not_after=end)
    days = ["certificate.age_days", "certificate.expires_in_days"]
    for after, expected in (
        (timedelta(), (0, 100)),
        (timedelta(hours=23, minutes=59), (0, 99)),
        (timedelta(days=1), (1, 99)),
        (timedelta(days=100), (100, 0)),
        (timedelta(days=100, seconds=1), (100, -1)),
    ):
        found = fields_of(client, at=begin + after, names=days)
        assert tuple(found[name][0] for name in days) == expected


@pytest.mark.parametrize(
    ("tag", "content", "found"),
    [
        (der.UTF8_STRING, "Büro".encode(), ("Büro",)),
        (der.BMP_STRING, "Büro".encode("utf-16-be"), ("Büro",)),
        (der.T61_STRING, b"B\xfcro", None),
        (der.PRINTABLE_STRING, b"Buero", ("Buero",)),
        (der.UTF8_STRING, b"", ()),
        (der.UTF8_STRING, b"B\xfcro", None),
    ],
)
def test_certificate_parts_are_parsed_or_unreadable(authorities, tag, content, found):
    client = odd_client(authorities, "odd", [(raw_certificates.ORGANISATION, tag, content)])
    try:
        assert fields_of(client).get("certificate.subject.O", ()) == found
    except CertificateUnreadable:
        assert found is None


# The parser warns of invalid serial numbers. radiusd's log may contain the warning.
@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
@settings(max_examples=examples(200), deadline=None)
@given(data=st.data())
def test_changed_certificate_is_parsed_or_unreadable(full, data):
    changed = bytearray(tenants.der(full.certificate))
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    octets = bytes(changed)
    with suppress(CertificateUnreadable):
        for values in certificate_attributes(octets).values():
            assert values
            assert all(isinstance(value, str) and value for value in values)
    with suppress(CertificateUnreadable):
        for values in dict(certificate_fields(octets, FIELDS, at=0)).values():
            assert values
            assert all(type(value) in (str, int) and value != "" for value in values)


POLICY = policy_of(
    rule(
        "sales",
        {
            "all": [
                compare("certificate.subject.OU", "equals", "Sales"),
                compare("certificate.template.name", "equals", "Machine"),
                compare("certificate.san.ip", "in_network", "192.0.2.0/24"),
                compare("certificate.expires_in_days", "at_least", 1),
            ]
        },
        {"verdict": "permit", "vlan": "50"},
    ),
    pinned_denies=[pinned("interns", compare("certificate.subject.title", "equals", "Intern"))],
)
both_versions = pytest.mark.parametrize("version", VERSIONS)


def known_client(cell, name, title="Dr"):
    fields = subject(CN=name, OU=["Staff", "Sales"], title=title)
    names = [x509.IPAddress(ip_address("192.0.2.7"))]
    client = issued_client(cell.alpha.authorities, name, fields, template_name("Machine"), names=names)
    cell.put_certificate(client)
    return client


@both_versions
def test_fields_decide_in_full_and_in_resumed_sessions(cell, version):
    cell.set_policy(POLICY)
    device = Device(known_client(cell, "sales"), version)
    device.visit(cell.alpha, vlan="50")
    assert is_resumed(device.visit(cell.alpha, vlan="50"))
    expected = {
        "certificate.subject.OU": ("Staff", "Sales"),
        "certificate.subject.title": ("Dr",),
        "certificate.san.ip": ("192.0.2.7",),
    }
    for record in cell.decisions():
        assert record.rule_id == "sales"
        assert expected.items() <= record.request.items()
        assert record.request["certificate.expires_in_days"][0] in (29, 30)
        # The module does not read fields that no rule uses.
        assert "certificate.issuer.O" not in record.request


@both_versions
def test_field_denies_in_full_and_in_resumed_sessions(cell, version):
    device = Device(known_client(cell, "intern", title="Intern"), version)
    device.visit(cell.alpha, vlan="10")
    cell.set_policy(POLICY)
    assert is_resumed(device.visit(cell.alpha, expected=ACCESS_REJECT))
    assert cell.decisions()[-1].rule_id == "interns"


@both_versions
def test_device_is_denied_if_its_session_cannot_be_stored(cell, version):
    """A rule that denies by a certificate field must apply even if the cell has no space for sessions."""
    cell.set_policy(POLICY)
    client = known_client(cell, "stored-nowhere", title="Intern")
    with cell.session_storage_missing():
        Device(client, version).visit(cell.alpha, expected=ACCESS_REJECT)
    record = cell.decisions()[-1]
    assert record.reason == "certificate-unread"
    assert "certificate.subject.title" in record.detail
