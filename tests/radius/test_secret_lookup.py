"""Two secrets at once: for each source, the module returns the secret that its packets prove."""

import os
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nac.cellformat.replica import keys
from nac.cellformat.replica.records import NasRecord, SecretRecord
from nac.kit import radius_packet as packet
from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_REJECT
from radius.agent.radiusd.log import LogFollower
from radius.module.request import packed_address
from radius.module.secret_proof import NEW as NEXT
from radius.module.secret_proof import OLD, ChangedSources, KnownSecrets, find_proven_secret
from tests.polling import next_second
from tests.radius.nas import CHAP_CHALLENGE, CHAP_PASSWORD, SILENCE_SECONDS, Nas, joined, mab, without_signature
from tests.radius.standalone import Plan, StandaloneCell, running_cell
from tests.radius.tenants import PRINTER, Tenant

NEW = "the-new-secret-of-alpha-0123"
WRONG = "a-secret-that-nobody-has-here"
OWN_OLD, OWN_NEW = "own-secret-of-one-nas-old", "own-secret-of-one-nas-new"
SWITCH, OTHER, LEGACY, OWN = "127.0.0.21", "127.0.0.22", "127.0.0.23", "127.0.0.25"


@pytest.fixture(scope="module")
def looking_up() -> Iterator[StandaloneCell]:
    with running_cell(Plan(looking_up=("alpha",))) as cell:
        yield cell


def rotate(cell: StandaloneCell, *secrets: str, rotation: str, tenant: Tenant | None = None) -> None:
    def sealed(*texts: str) -> tuple[SecretRecord, ...]:
        return tuple(SecretRecord(cell.sealer.seal(each.encode(), "of:tests"), "of:tests") for each in texts)

    tenant = tenant or cell.alpha
    cell.set_slot(tenant, secrets=sealed(*secrets), rotation=rotation)
    with cell.changes() as batch:
        legacy = NasRecord("n", "old switch", tenant.site_id, "", require_message_authenticator=False)
        batch.put_nas(keys.by_address(tenant.number, packed_address(LEGACY)), legacy)
        own = NasRecord("o", "own", tenant.site_id, "", secrets=sealed(OWN_OLD, OWN_NEW), rotation="own")
        batch.put_nas(keys.by_address(tenant.number, packed_address(OWN)), own)


@pytest.fixture
def cell(looking_up: StandaloneCell) -> StandaloneCell:
    looking_up.forget_records()
    rotate(looking_up, looking_up.alpha.secret, NEW, rotation=os.urandom(4).hex())
    next_second()
    return looking_up


def is_silent(cell: StandaloneCell, address: str, secret: str, **options) -> bool:
    return not is_answered(cell, address, secret, seconds=SILENCE_SECONDS, **options)


def is_answered(cell: StandaloneCell, address: str, secret: str, *, tenant=None, seconds: float = 2) -> bool:
    tenant = tenant or cell.alpha
    request = recorded_request(tenant, secret)
    reply = Nas(tenant, address, secret).exchange(request, seconds=seconds)
    return reply is not None and packet.parse_response(reply, request, secret.encode()).code == ACCESS_ACCEPT


def recorded_request(tenant: Tenant, secret: str) -> bytes:
    attributes, password = mab(tenant.mac(PRINTER))
    return packet.make_access_request(9, os.urandom(16), attributes, secret.encode(), password)


def ask_unsigned(
    cell: StandaloneCell, secret: str, *more: bytes, password: bool = True, address: str = LEGACY, seconds: float = 2
) -> int | None:
    """The code of the response to a request without Message-Authenticator. None means silence."""
    key = secret.encode()
    attributes, hidden = mab(cell.alpha.mac(PRINTER))
    attributes = b"".join((attributes, *more))
    signed = packet.make_access_request(1, os.urandom(16), attributes, key, hidden if password else None)
    request = without_signature(signed)
    reply = Nas(cell.alpha, address, secret).exchange(request, seconds=seconds)
    return None if reply is None else packet.parse_response(reply, request, key).code


def accounting_request(nas: Nas) -> bytes:
    told = joined([(packet.ACCT_STATUS_TYPE, 1), (packet.ACCT_SESSION_ID, os.urandom(4).hex())])
    return packet.make_accounting_request(9, told, nas.key)


def test_each_nas_is_answered_with_its_proven_secret(cell):
    assert is_answered(cell, SWITCH, cell.alpha.secret)
    assert is_answered(cell, OTHER, NEW)
    assert is_silent(cell, "127.0.0.24", WRONG)
    assert is_answered(cell, OWN, OWN_OLD)
    assert is_answered(cell, "127.0.0.24", cell.bravo.secret, tenant=cell.bravo)
    assert is_silent(cell, "127.0.0.24", NEW, tenant=cell.bravo)
    next_second()
    assert is_answered(cell, SWITCH, NEW)
    # A switch that restarted with its earlier saved configuration.
    assert is_answered(cell, OTHER, cell.alpha.secret)
    assert is_answered(cell, OWN, OWN_NEW)
    assert is_silent(cell, "127.0.0.26", OWN_NEW)
    which = [(each.proof[1], each.proof[2]) for each in cell.decisions(tenant_id=cell.alpha.tenant_id)]
    assert which == [
        *[("old", SWITCH), ("new", OTHER), ("old", OWN)],
        *[("new", SWITCH), ("old", OTHER), ("new", OWN)],
    ]


@pytest.mark.parametrize("which", ["old", "new"])
def test_accounting_is_acknowledged_with_either_secret(cell, which):
    nas = Nas(cell.alpha, SWITCH, cell.alpha.secret if which == "old" else NEW)
    assert nas.exchange(accounting_request(nas), port=cell.alpha.acct_port) is not None
    assert [each.proof[1] for each in cell.accounting()] == [which]


def test_forged_packets_do_not_lock_a_nas_out(cell):
    for secret in (cell.alpha.secret, NEW, NEW):
        with Nas(cell.alpha, SWITCH).socket() as sending:
            for _ in range(50):
                sending.send(recorded_request(cell.alpha, WRONG))
        assert is_answered(cell, SWITCH, secret)
        next_second()


def test_replayed_packets_do_not_restore_the_old_secret(cell):
    recorded, replayer = recorded_request(cell.alpha, cell.alpha.secret), Nas(cell.alpha, SWITCH)
    assert replayer.exchange(recorded) is not None
    next_second()
    assert is_answered(cell, SWITCH, NEW)
    next_second()
    # A NAS changes its secret only once until the second secret expires.
    replayer.exchange(recorded, seconds=SILENCE_SECONDS)
    for _ in range(2):
        next_second()
        assert replayer.exchange(recorded, seconds=SILENCE_SECONDS) is None
        assert is_answered(cell, SWITCH, NEW)


def test_new_radiusd_knows_which_nases_have_changed(cell):
    recorded, replayer = recorded_request(cell.alpha, cell.alpha.secret), Nas(cell.alpha, SWITCH)
    assert is_answered(cell, SWITCH, NEW)
    assert any(SWITCH in line for line in (cell.paths.root / "changed-over").read_text().splitlines())
    cell.restart_radiusd()
    next_second()
    replayer.exchange(recorded, seconds=SILENCE_SECONDS)
    next_second()
    assert replayer.exchange(recorded, seconds=SILENCE_SECONDS) is None
    assert is_answered(cell, SWITCH, NEW)
    assert is_answered(cell, OTHER, cell.alpha.secret)


def test_unsigned_request_proves_its_secret_by_its_password(cell):
    assert ask_unsigned(cell, cell.alpha.secret) == ACCESS_ACCEPT
    next_second()
    assert ask_unsigned(cell, NEW) == ACCESS_ACCEPT
    assert [record.signature for record in cell.decisions()] == [("unsigned", LEGACY)] * 2
    assert [record.proof[1] for record in cell.decisions()] == ["old", "new"]
    next_second()
    assert ask_unsigned(cell, WRONG, seconds=SILENCE_SECONDS) is None
    next_second()
    # CHAP proves no secret. radiusd answers with the last proven secret.
    chap = joined([(CHAP_PASSWORD, bytes(17)), (CHAP_CHALLENGE, bytes(16))])
    assert ask_unsigned(cell, NEW, chap, password=False) == ACCESS_REJECT


@pytest.mark.parametrize(
    ("address", "more"),
    # The exemption of an old switch does not cover Proxy-State.
    [("127.0.0.27", b""), (LEGACY, packet.encode_attribute(packet.PROXY_STATE, b"of an attacker"))],
)
def test_unsigned_request_is_not_a_wrong_secret(cell, address, more):
    follower = LogFollower(cell.paths.radiusd_log, Counter())
    assert ask_unsigned(cell, cell.alpha.secret, more, address=address, seconds=SILENCE_SECONDS) is None
    follower.poll()
    assert follower.take("unsigned") == {(cell.alpha.slot, address)}
    assert follower.take("wrong_secret") == set()


def test_one_secret_remains_after_the_rotation(cell):
    assert is_answered(cell, SWITCH, NEW)
    rotate(cell, NEW, rotation="")
    next_second()
    assert is_answered(cell, SWITCH, NEW)
    assert is_silent(cell, OTHER, cell.alpha.secret)
    rotate(cell, cell.alpha.secret, rotation="")
    next_second()
    assert is_silent(cell, SWITCH, NEW)
    assert is_answered(cell, OTHER, cell.alpha.secret)
    assert all(each.proof == () for each in cell.decisions()[-2:])


def test_nases_sharing_an_address_may_use_different_secrets(cell):
    """An address has one secret until the second secret expires.

    radiusd drops a packet with the other secret. The NAS sends it again and gets a response, even if the other NAS
    sends meanwhile.
    """
    old, new = (Nas(cell.alpha, SWITCH, secret) for secret in (cell.alpha.secret, NEW))
    assert is_answered(cell, SWITCH, cell.alpha.secret)
    waiting = recorded_request(cell.alpha, NEW)
    tries = 0
    while new.exchange(waiting, seconds=1.1) is None:
        tries += 1
        assert tries < 10
    for nas in (old, new):
        request = accounting_request(nas)
        assert any(nas.exchange(request, port=cell.alpha.acct_port, seconds=1.1) for _ in range(10))
    assert [each.proof[1] for each in cell.accounting()] == ["old", "new"]


def test_nas_with_neither_secret_is_named(cell):
    follower = LogFollower(cell.paths.radiusd_log, Counter())
    assert is_silent(cell, "127.0.0.31", WRONG)
    assert is_silent(cell, "127.0.0.32", WRONG, tenant=cell.bravo)
    follower.poll()
    assert follower.take("wrong_secret") == {(cell.alpha.slot, "127.0.0.31"), (cell.bravo.slot, "127.0.0.32")}
    assert not follower.take("wrong_secret")


KNOWN = KnownSecrets((b"the-secret-of-before", b"the-secret-to-come-01"), "r", True)


@given(st.binary(max_size=200), st.booleans())
def test_unsigned_bytes_prove_nothing(body, signs):
    head = bytes((1, 7)) + (20 + len(body)).to_bytes(2) + bytes(16)
    try:
        found = find_proven_secret(packet.parse_packet(head + body), KNOWN._replace(signs=signs))
    except packet.MalformedPacket:
        return
    assert found is None


@given(st.binary(min_size=16, max_size=16), st.sampled_from((OLD, NEXT)), st.text("abc09-", min_size=1, max_size=40))
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
    assert marks.admits(place, "r", NEXT, b"2" * 16)
    again = ChangedSources(file)
    assert again.last(place, "r") == NEXT
    assert again.last(place, "another") == OLD
    assert again.admits(place, "r", OLD, b"3" * 16)
    assert not again.admits(place, "r", OLD, b"3" * 16)
    file.write_text("r\nr x y\n\n r 1\n")
    assert ChangedSources(file).last(place, "r") == OLD
