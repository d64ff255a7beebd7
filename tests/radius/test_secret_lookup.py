"""Two secrets at once: for each source, the module returns the secret that its packets prove."""

import os
from collections import Counter
from collections.abc import Iterator

import msgspec
import pytest

from nac.cellformat.replica import keys
from nac.cellformat.replica.records import NasRecord, SecretRecord
from nac.kit import radius_packet as packet
from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_REJECT
from radius.agent.radiusd import probe, process
from radius.agent.radiusd.log import LogFollower
from radius.module.request import packed_address
from tests.polling import next_second
from tests.radius.nas import CHAP_CHALLENGE, CHAP_PASSWORD, SILENCE_SECONDS, Nas, mab
from tests.radius.standalone import LOOPBACK, STATUS_SECRET, Plan, StandaloneCell, running_cell
from tests.radius.tenants import PRINTER

NEW = "the-new-secret-of-alpha-0123"
WRONG = "a-secret-that-nobody-has-here"
OWN_OLD, OWN_NEW = "own-secret-of-one-nas-old", "own-secret-of-one-nas-new"
SWITCH, OTHER, LEGACY, OWN = "127.0.0.21", "127.0.0.22", "127.0.0.23", "127.0.0.25"


@pytest.fixture(scope="module")
def looking_up() -> Iterator[StandaloneCell]:
    with running_cell(Plan(looking_up=("alpha",))) as cell:
        yield cell


def rotate(cell: StandaloneCell, *secrets: str, rotation: str) -> None:
    def sealed(*texts: str) -> tuple[SecretRecord, ...]:
        return tuple(SecretRecord(cell.sealer.seal(each.encode(), "of:tests"), "of:tests") for each in texts)

    alpha = cell.alpha
    with cell.replica.begin() as batch:
        batch.put_slot(
            alpha.slot, msgspec.structs.replace(alpha.slot_record(), secrets=sealed(*secrets), rotation=rotation)
        )
        legacy = NasRecord("n", "old switch", alpha.site_id, "", require_message_authenticator=False)
        batch.put_nas(keys.by_address(alpha.number, packed_address(LEGACY)), legacy)
        own = NasRecord("o", "own", alpha.site_id, "", secrets=sealed(OWN_OLD, OWN_NEW), rotation="own")
        batch.put_nas(keys.by_address(alpha.number, packed_address(OWN)), own)


@pytest.fixture
def cell(looking_up: StandaloneCell) -> StandaloneCell:
    looking_up.forget_records()
    rotate(looking_up, looking_up.alpha.secret, NEW, rotation=os.urandom(4).hex())
    next_second()
    return looking_up


def is_silent(cell: StandaloneCell, address: str, secret: str, *, tenant=None) -> bool:
    return not is_answered(cell, address, secret, tenant=tenant, seconds=SILENCE_SECONDS)


def is_answered(cell: StandaloneCell, address: str, secret: str, *, tenant=None, seconds: float = 2) -> bool:
    tenant = tenant or cell.alpha
    attributes, password = mab(tenant.mac(PRINTER))
    authenticator, key = os.urandom(16), secret.encode()
    request = packet.make_access_request(1, authenticator, attributes, key, password)
    reply = Nas(tenant, address, secret).exchange(request, seconds=seconds)
    return reply is not None and packet.parse_response(reply, request, key).code == ACCESS_ACCEPT


def unsigned(
    cell: StandaloneCell,
    secret: str,
    more: bytes = b"",
    *,
    hidden: bool = True,
    address: str = LEGACY,
    seconds: float = 2,
) -> bytes | None:
    attributes, password = mab(cell.alpha.mac(PRINTER))
    authenticator, key = os.urandom(16), secret.encode()
    signed = packet.make_access_request(1, authenticator, attributes + more, key, password if hidden else None)
    bare, at = bytearray(signed[:20]), 20
    while at < len(signed):
        if signed[at] != 80:
            bare += signed[at : at + signed[at + 1]]
        at += signed[at + 1]
    bare[2:4] = len(bare).to_bytes(2)
    reply = Nas(cell.alpha, address, secret).exchange(bytes(bare), seconds=seconds)
    if reply is not None:
        packet.parse_response(reply, bytes(bare), key)
    return reply


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
    told = packet.encode_attribute(40, 1) + packet.encode_attribute(44, os.urandom(4).hex())
    assert nas.account(told) is not None
    assert [each.proof[1] for each in cell.accounting()] == [which]


def test_forged_packets_do_not_lock_a_nas_out(cell):
    forger = Nas(cell.alpha, SWITCH, WRONG)
    attributes, password = mab(cell.alpha.mac(PRINTER))
    key = forger.key
    for secret in (cell.alpha.secret, NEW, NEW):
        with forger.socket() as sending:
            for number in range(50):
                sending.send(packet.make_access_request(number, os.urandom(16), attributes, key, password))
        assert is_answered(cell, SWITCH, secret)
        next_second()


def test_replayed_packets_do_not_restore_the_old_secret(cell):
    old = cell.alpha.secret.encode()
    attributes, password = mab(cell.alpha.mac(PRINTER))
    recorded = packet.make_access_request(9, os.urandom(16), attributes, old, password)
    replayer = Nas(cell.alpha, SWITCH, cell.alpha.secret)
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
    old = cell.alpha.secret.encode()
    attributes, password = mab(cell.alpha.mac(PRINTER))
    recorded = packet.make_access_request(9, os.urandom(16), attributes, old, password)
    assert is_answered(cell, SWITCH, NEW)
    assert any(SWITCH in line for line in (cell.paths.root / "changed-over").read_text().splitlines())
    process.stop(cell.running)
    cell.running = process.start(cell.running.config_directory, cell.paths.radiusd_log)
    assert probe.is_serving(LOOPBACK, cell.config.status_port, STATUS_SECRET, seconds=20)
    next_second()
    Nas(cell.alpha, SWITCH, "").exchange(recorded, seconds=SILENCE_SECONDS)
    next_second()
    assert Nas(cell.alpha, SWITCH, "").exchange(recorded, seconds=SILENCE_SECONDS) is None
    assert is_answered(cell, SWITCH, NEW)
    assert is_answered(cell, OTHER, cell.alpha.secret)


def test_unsigned_request_proves_its_secret_by_its_password(cell):
    assert unsigned(cell, cell.alpha.secret)[0] == ACCESS_ACCEPT
    next_second()
    assert unsigned(cell, NEW)[0] == ACCESS_ACCEPT
    assert [record.signature for record in cell.decisions()] == [("unsigned", LEGACY)] * 2
    assert [record.proof[1] for record in cell.decisions()] == ["old", "new"]
    next_second()
    assert unsigned(cell, WRONG, seconds=SILENCE_SECONDS) is None
    next_second()
    # CHAP proves no secret. radiusd answers with the last proven secret.
    chap = packet.encode_attribute(CHAP_PASSWORD, bytes(17)) + packet.encode_attribute(CHAP_CHALLENGE, bytes(16))
    assert unsigned(cell, NEW, chap, hidden=False)[0] == ACCESS_REJECT


def test_unsigned_request_is_not_a_wrong_secret(cell):
    follower = LogFollower(cell.paths.radiusd_log, Counter())
    assert unsigned(cell, cell.alpha.secret, address="127.0.0.27", seconds=SILENCE_SECONDS) is None
    follower.poll()
    assert follower.take("unsigned") == {(cell.alpha.slot, "127.0.0.27")}
    assert follower.take("wrong_secret") == set()


def test_exemption_in_a_rotation_does_not_cover_proxy_state(cell):
    follower = LogFollower(cell.paths.radiusd_log, Counter())
    proxied = packet.encode_attribute(33, b"of an attacker")
    assert unsigned(cell, cell.alpha.secret, proxied, seconds=SILENCE_SECONDS) is None
    follower.poll()
    assert follower.take("unsigned") == {(cell.alpha.slot, LEGACY)}


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
    attributes, password = mab(cell.alpha.mac(PRINTER))
    waiting = packet.make_access_request(7, os.urandom(16), attributes, new.key, password)
    tries = 0
    while new.exchange(waiting, seconds=1.1) is None:
        tries += 1
        assert tries < 10
    for nas in (old, new):
        told = packet.encode_attribute(40, 1) + packet.encode_attribute(44, os.urandom(4).hex())
        request = packet.make_accounting_request(9, told, nas.key)
        assert any(nas.exchange(request, port=cell.alpha.acct_port, seconds=1.1) for _ in range(10))
    assert [each.proof[1] for each in cell.accounting()] == ["old", "new"]


def test_nas_with_neither_secret_is_named(cell):
    follower = LogFollower(cell.paths.radiusd_log, Counter())
    assert is_silent(cell, "127.0.0.31", WRONG)
    assert is_silent(cell, "127.0.0.32", WRONG, tenant=cell.bravo)
    follower.poll()
    assert follower.take("wrong_secret") == {(cell.alpha.slot, "127.0.0.31"), (cell.bravo.slot, "127.0.0.32")}
    assert not follower.take("wrong_secret")


def test_cell_that_listens_on_both_families_looks_up_each():
    with running_cell(Plan(listen_address="::", looking_up=("alpha",))) as cell:
        rotate(cell, cell.alpha.secret, NEW, rotation="both")
        for address, secret in (("127.0.0.1", NEW), ("::1", cell.alpha.secret)):
            assert is_answered(cell, address, secret)
        assert is_silent(cell, "::1", WRONG)
