"""Certificates in stored TLS sessions, read from valid and damaged files."""

import re
import ssl

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nac.kit.radius_packet import ACCESS_REJECT
from pki import der
from radius.module.tls_sessions import (
    CertificateUnreadable,
    SessionUnreadable,
    certificate_attributes,
    keep_resumable,
    parse_peer_certificate,
    read_stored_certificate,
)
from tests.pki import raw_certificates
from tests.radius import tenants
from tests.radius.devices import VERSIONS, Device, is_resumed
from tests.radius.odd_certificates import DNS, EMAIL, URI, general_name, odd_client, upn
from tests.run_depth import examples

UTF8 = der.UTF8_STRING
both = pytest.mark.parametrize("version", VERSIONS)
fuzz = settings(
    max_examples=examples(300),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
_LINE = re.compile(r'^\t(TLS-Client-Cert-[\w-]+) (?::=|\+=) "(.*)",?$', re.MULTILINE)
_SAMPLES: dict[ssl.TLSVersion, bytes] = {}


def common_name(content):
    return [(raw_certificates.COMMON_NAME, UTF8, content)]


def stored_session(cell, suffix):
    return sorted((cell.paths.sessions / "slot-0").glob(f"*{suffix}"), key=lambda path: path.stat().st_mtime_ns)


@pytest.fixture(params=VERSIONS)
def session(request, cell):
    """The session file that radiusd wrote."""
    if request.param not in _SAMPLES:
        Device(cell.alpha.clients["laptop"], request.param).visit(cell.alpha)
        _SAMPLES[request.param] = stored_session(cell, ".asn1")[-1].read_bytes()
    return _SAMPLES[request.param]


def test_certificate_is_found_in_a_stored_session(cell, session):
    assert parse_peer_certificate(session) == tenants.der(cell.alpha.clients["laptop"].certificate)


def test_truncated_session_is_unreadable(session):
    for end in range(len(session)):
        with pytest.raises(SessionUnreadable):
            parse_peer_certificate(session[:end])


@fuzz
@given(data=st.data())
def test_session_with_changed_octets_is_parsed_or_unreadable(session, data):
    changed = bytearray(session)
    for at in data.draw(st.lists(st.integers(0, min(len(session), 80) - 1), min_size=1, max_size=4)):
        changed[at] = data.draw(st.integers(0, 255))
    try:
        found = parse_peer_certificate(bytes(changed))
    except SessionUnreadable:
        return
    assert found in bytes(changed)


@fuzz
@given(st.binary(max_size=300))
def test_random_octets_are_parsed_or_unreadable(octets):
    try:
        assert parse_peer_certificate(octets) in octets
    except SessionUnreadable:
        return


@pytest.mark.parametrize("name", [b"\xa3\x00", b"\xa5\x03\x0c\x01x", b"\x84\x03abc", b"\x87\x03abc", b"\x88\x01\x80"])
def test_rare_alternative_names_are_parsed_or_unreadable(cell, name):
    """`x400Address`, ediPartyName, directoryName, an IP address of three octets, and a truncated registered ID."""
    certificate = odd_client(cell.alpha.authorities, "rare", common_name(b"x"), names=name)
    with pytest.raises(CertificateUnreadable):
        certificate_attributes(tenants.der(certificate.certificate))


@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
@pytest.mark.parametrize("serial", [b"\x00", b"\xff", b"\x80"])
def test_non_positive_serial_number_is_unreadable(cell, serial):
    """Serial numbers are positive (RFC 5280 4.1.2.2). By its octets, -5 could match the revoked number 5."""
    whole = tenants.der(odd_client(cell.alpha.authorities, "x", common_name(b"x"), serial=5).certificate)
    changed = whole.replace(b"\x02\x01\x05", b"\x02\x01" + serial, 1)
    with pytest.raises(CertificateUnreadable, match="positive"):
        certificate_attributes(changed)


ATTRIBUTES = {"TLS-Client-Cert-Expiration": ("301231235959Z",), "TLS-Client-Cert-Serial": ("0a",)}


def test_missing_file_is_unreadable_and_no_space_no_error(tmp_path):
    with pytest.raises(SessionUnreadable, match="No such file"):
        read_stored_certificate(str(tmp_path / "gone.asn1"))
    keep_resumable(str(tmp_path / "gone" / "ab01.asn1"), ATTRIBUTES)


def test_attribute_file_names_its_session(tmp_path):
    for _ in range(2):
        keep_resumable(str(tmp_path / "ab01.asn1"), ATTRIBUTES)
    (written,) = tmp_path.iterdir()
    assert written.name == "ab01.vps"
    assert written.stat().st_mode & 0o777 == 0o600
    expected = {name: value for name, (value,) in ATTRIBUTES.items()}
    expected["TLS-Client-Cert-Filename"] = str(tmp_path / "ab01.asn1")
    assert dict(_LINE.findall(written.read_text())) == expected


@both
def test_cell_without_session_storage_permits_without_resuming(cell, version):
    with cell.session_storage_missing():
        device = Device(cell.alpha.clients["laptop"], version)
        device.visit(cell.alpha, vlan="10")
        assert not is_resumed(device.visit(cell.alpha, vlan="10"))
    assert [record.request["identity"] for record in cell.decisions()] == [("laptop",)] * 2


@both
@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "damaged"])
def test_deleted_or_damaged_session_is_not_resumed(cell, version, is_deleted):
    device = Device(cell.alpha.clients["laptop"], version)
    device.visit(cell.alpha, vlan="10")
    if is_deleted:
        for path in (*stored_session(cell, ".asn1"), *stored_session(cell, ".vps")):
            path.unlink()
    else:
        path = stored_session(cell, ".asn1")[-1]
        path.write_bytes(path.read_bytes()[:100])
    assert not is_resumed(device.visit(cell.alpha, vlan="10"))


@both
def test_session_of_a_certificate_without_a_record_is_refused(cell, version):
    client = cell.alpha.clients["spare"]
    device = Device(client, version)
    device.visit(cell.alpha, vlan="10")
    with cell.changes() as batch:
        batch.delete_certificate(cell.alpha.number, client.serial)
    assert is_resumed(device.visit(cell.alpha, expected=ACCESS_REJECT))
    assert cell.decisions()[-1].reason == "certificate-unknown"


SAME = {
    "plain": (common_name(b"laptop"), b""),
    "beyond ASCII": (common_name("café".encode()), b""),
    "quotes": (common_name(b"a'b`c"), b""),
    "two parts": ([(raw_certificates.ORGANISATION, UTF8, b"Alpha"), *common_name(b"x")], b""),
    "alternative names": (
        common_name(b"x"),
        general_name(DNS, b"x.example")
        + general_name(EMAIL, b"x@b.example")
        + general_name(URI, b"urn:x")
        + upn("ü@b.example".encode()),
    ),
}


@pytest.mark.parametrize(("relative_name", "names"), SAME.values(), ids=SAME)
def test_parts_match_radiusds_report(cell, relative_name, names):
    """After a full handshake of TLS 1.3, the session has a file with the values that radiusd reports.

    Values that radiusd reports incorrectly are in test_resumption.
    """
    client = odd_client(cell.alpha.authorities, "same", relative_name, names=names)
    cell.put_certificate(client)
    Device(client, ssl.TLSVersion.TLSv1_3).visit(cell.alpha, vlan="10")
    reported = dict(_LINE.findall(stored_session(cell, ".vps")[-1].read_text()))
    ours = certificate_attributes(tenants.der(client.certificate))
    assert {name: unquoted(reported[name]) for name in ours} == {name: values[0] for name, values in ours.items()}


def unquoted(text):
    return re.sub(r"\\([\\\"])", r"\1", text)


def test_certificate_end_has_the_certificates_format(cell):
    def end(**options):
        client = odd_client(cell.alpha.authorities, "end", common_name(b"x"), **options)
        return certificate_attributes(tenants.der(client.certificate))["TLS-Client-Cert-Expiration"]

    assert re.fullmatch(r"\d{12}Z", end()[0])
    assert end(generalized_end=True) == ("20701231235959Z",)
