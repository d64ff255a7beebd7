"""Packets with any contents prove or do not prove the shared secret."""

from hypothesis import given
from hypothesis import strategies as st

from nac.kit import radius_packet as packet
from radius.module.secret_proof import NEW, OLD, ChangedSources, KnownSecrets, find_proven_secret

KNOWN = KnownSecrets((b"the-secret-of-before", b"the-secret-to-come-01"), "r", True)


@given(st.binary(max_size=200), st.booleans())
def test_unsigned_bytes_prove_nothing(body, signs):
    head = bytes((1, 7)) + (20 + len(body)).to_bytes(2) + bytes(16)
    try:
        found = find_proven_secret(packet.parse_packet(head + body), KNOWN._replace(signs=signs))
    except packet.MalformedPacket:
        return
    assert found is None


@given(st.binary(min_size=16, max_size=16), st.sampled_from((OLD, NEW)), st.text("abc09-", min_size=1, max_size=40))
def test_signed_request_proves_its_secret(authenticator, which, name):
    key = KNOWN.secrets[which]
    request = packet.make_access_request(
        3, authenticator, packet.encode_attribute(packet.USER_NAME, name), key, name.encode()
    )
    assert find_proven_secret(packet.parse_packet(request), KNOWN) == which
    told = packet.make_accounting_request(3, packet.encode_attribute(packet.USER_NAME, name), key)
    assert find_proven_secret(packet.parse_packet(told), KNOWN) == which
    # One changed bit of the packet or of the secret.
    for octets in (request, told):
        assert find_proven_secret(packet.parse_packet(octets[:-1] + bytes((octets[-1] ^ 1,))), KNOWN) is None


def test_marks_round_trip_and_a_broken_file_is_ignored(tmp_path):
    file, place = tmp_path / "changed-over", (3, "2001:db8::7")
    marks = ChangedSources(file)
    assert marks.admits(place, "r", OLD, b"1" * 16)
    assert marks.last(place, "r") == OLD
    assert marks.admits(place, "r", NEW, b"2" * 16)
    again = ChangedSources(file)
    assert again.last(place, "r") == NEW
    assert again.last(place, "another") == OLD
    assert again.admits(place, "r", OLD, b"3" * 16)
    assert not again.admits(place, "r", OLD, b"3" * 16)
    file.write_text("r\nr x y\n\n r 1\n")
    assert ChangedSources(file).last(place, "r") == OLD
