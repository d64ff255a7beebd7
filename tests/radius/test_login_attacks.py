"""Attacks on a login over several packets or conversations: none is permitted or uses another user's name."""

import asyncio
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from loadtest.eap_tls_client import client_context
from nac.cellformat.methods import METHODS
from nac.cellformat.replica import keys
from nac.cellformat.replica.records import NasRecord, mab_password_context
from nac.inventory.identity_sources.verifier_messages import VerificationResult
from nac.kit.radius_packet import (
    ACCESS_CHALLENGE,
    ACCESS_REJECT,
    CALLING_STATION_ID,
    NAS_IDENTIFIER,
    USER_NAME,
    encode_attribute,
)
from tests.radius.devices import VERSIONS, Device
from tests.radius.inner_mschap import mschap_answer, open_mschap, say_eap
from tests.radius.nas import Nas
from tests.radius.supplicant import new_mac
from tests.radius.tenants import PASSWORD, PRINTER
from tests.radius.test_eap_restarts import finish, open_verified
from tests.radius.tunnel import IDENTITY, PEAP, RESPONSE, TLS, TTLS, Tunnel, eap, login
from tests.radius.users import put_argon2_user
from tests.verifier.verifier_server import always, running_verifier

SUCCESS, EXPANDED = 3, 254


def expanded(identifier, kind, data=b""):
    return eap(RESPONSE, identifier, EXPANDED, b"\0\0\0\0\0\0" + bytes((kind,)) + data)


pytestmark = pytest.mark.usefixtures("everything_offered")


@pytest.fixture
def fixed_text(cell, replica):
    sealed = cell.sealer.seal(b"text-of-the-switch", mab_password_context("n"))
    nas = NasRecord("n", "Fixed", cell.alpha.site_id, "cisco", mab_password="fixed", sealed_mab_password=sealed)
    with replica.begin() as batch:
        batch.put_nas(keys.by_identifier(cell.alpha.number, "fixed"), nas)


@pytest.mark.parametrize("version", VERSIONS)
def test_expanded_last_tls_packet_is_not_mab(cell, fixed_text, version):
    client = cell.alpha.clients["revoked"]
    context = client_context(certificate=str(client.chain_file), key=str(client.key_file), version=version)
    tunnel = Tunnel(cell.alpha, TLS, outer=PRINTER, mac=PRINTER, context=context)
    tunnel.more = encode_attribute(NAS_IDENTIFIER, "fixed")
    tunnel.open()
    if version == ssl.TLSVersion.TLSv1_3:
        assert tunnel.say() == ACCESS_CHALLENGE
    tunnel.ask(expanded(tunnel._identifier, TLS, b"\0"))
    assert tunnel.code == ACCESS_REJECT


def test_expanded_identity_starts_no_second_conversation(cell):
    first = open_verified(cell.alpha, TTLS)
    first.ask(expanded(0, IDENTITY, b"anonymous"))
    assert first.code == ACCESS_REJECT


def test_malformed_packet_is_logged_without_anothers_name(cell):
    first = open_verified(cell.alpha, PEAP)
    other = Tunnel(cell.alpha, PEAP, outer="stranger")
    other.state = first.state
    other.ask(eap(SUCCESS, first._identifier, PEAP, b"\0"))
    assert other.code == ACCESS_REJECT
    record = cell.decision()
    assert (record.mac, record.identity, record.method) == (other.mac, "stranger", "peap")


@pytest.mark.parametrize("kind", [PEAP, TTLS])
def test_conversations_before_the_limit_do_not_bypass_it(cell, replica, kind):
    name = f"guessed-{kind}"
    with replica.begin() as batch:
        batch.put_slot(cell.alpha.slot, cell.alpha.slot_record(methods=METHODS, password_failure_limit=3))
        batch.put_user(cell.alpha.number, cell.alpha.user(name, cell.sealer))
    opened = [open_mschap(cell.alpha, kind, name=name) for _ in range(5)]
    for tunnel in opened[:4]:
        say_eap(tunnel, kind, mschap_answer(tunnel, name, "wrong"))
    last = opened[4]
    say_eap(last, kind, mschap_answer(last, name, PASSWORD))
    assert b"S=" not in last.heard
    assert finish(last) == ACCESS_REJECT
    assert cell.decision(mac=last.mac).reason == "too-many-wrong-passwords"


def test_logins_waiting_for_the_verifier_do_not_bypass_it(cell, replica):
    with replica.begin() as batch:
        batch.put_slot(cell.alpha.slot, cell.alpha.slot_record(methods=METHODS, password_failure_limit=3))
        put_argon2_user(batch, cell, "awaited", PASSWORD)
    everybody_asked = threading.Event()

    async def verify(slot, name, password):
        while not everybody_asked.is_set() or (password == b"right" and len(cell.decisions()) < 4):
            await asyncio.sleep(0.01)
        return VerificationResult("" if password == b"right" else "wrong-password")

    def login(password):
        attributes = encode_attribute(USER_NAME, "awaited") + encode_attribute(CALLING_STATION_ID, new_mac())
        return Nas(cell.alpha).ask(attributes, password=password)[0]

    with (
        running_verifier(cell.config.verifier.port, cell.config.verifier.secret, verify) as running,
        ThreadPoolExecutor(5) as devices,
    ):
        answers = [devices.submit(login, password) for password in (b"right", *[b"wrong"] * 4)]
        while len(running.asked) < 5:
            threading.Event().wait(0.01)
        everybody_asked.set()
        assert [answer.result() for answer in answers] == [ACCESS_REJECT] * 5
    assert cell.decisions()[-1].reason == "too-many-wrong-passwords"


def test_wrong_passwords_of_a_closed_station_are_counted(cell, replica):
    with replica.begin() as batch:
        record = cell.alpha.slot_record(methods=METHODS, failure_limit=2, password_failure_limit=3)
        batch.put_slot(cell.alpha.slot, record)
        put_argon2_user(batch, cell, "waiting", PASSWORD)
    station, is_closed = new_mac(), threading.Event()

    async def verify(slot, name, password):
        while not is_closed.is_set():
            await asyncio.sleep(0.01)
        return VerificationResult("" if password == b"right" else "wrong-password")

    def login(name, password, mac):
        attributes = encode_attribute(USER_NAME, name) + encode_attribute(CALLING_STATION_ID, mac)
        return Nas(cell.alpha).ask(attributes, password=password)[0]

    with (
        running_verifier(cell.config.verifier.port, cell.config.verifier.secret, verify) as running,
        ThreadPoolExecutor(3) as devices,
    ):
        answers = [devices.submit(login, "waiting", b"wrong", station) for _ in range(3)]
        while len(running.asked) < 3:
            threading.Event().wait(0.01)
        for _ in range(2):
            assert login("stranger", b"any", station) == ACCESS_REJECT
        is_closed.set()
        assert [answer.result() for answer in answers] == [ACCESS_REJECT] * 3
        assert login("waiting", b"right", new_mac()) == ACCESS_REJECT
    assert cell.decisions()[-1].reason == "too-many-wrong-passwords"


def test_password_in_a_resumed_session_keeps_the_tls_version(cell, replica):
    """`radiusd` records no version if data follows the end of the handshake, and it resumes certificate sessions."""
    device = Device(cell.alpha.clients["laptop"], ssl.TLSVersion.TLSv1_2)
    device.visit(cell.alpha)
    cell.forget_records()
    with replica.begin() as batch:
        batch.put_slot(cell.alpha.slot, cell.alpha.slot_record(methods=METHODS, tls_versions=("1.3",)))
    tunnel = Tunnel(cell.alpha, TTLS, context=device._context, session=device._supplicant.session).open()
    assert tunnel.tls.session_reused
    assert tunnel.say(login(b"anna", PASSWORD.encode())) == ACCESS_REJECT
    assert cell.decision().permitted is False


def test_data_after_the_handshake_keeps_the_tls_version(cell, replica):
    client = cell.alpha.clients["laptop"]
    context = client_context(
        certificate=str(client.chain_file), key=str(client.key_file), version=ssl.TLSVersion.TLSv1_3
    )
    with replica.begin() as batch:
        batch.put_slot(cell.alpha.slot, cell.alpha.slot_record(methods=METHODS, tls_versions=("1.2",)))
    tunnel = Tunnel(cell.alpha, TLS, outer="laptop", context=context).open()
    tunnel.say(b"data")
    assert finish(tunnel) == ACCESS_REJECT
    assert (cell.decision().reason, cell.decision().tls_version) == ("tls-version", "1.3")


def test_equivalent_directory_names_count_together(cell, replica):
    with replica.begin() as batch:
        batch.put_slot(cell.alpha.slot, cell.alpha.slot_record(methods=METHODS, password_failure_limit=4))
        cell.alpha.put_source(batch)
    names = ("zoe zahn", "ZOE ZAHN", "zoe  zahn", "zo\uff45 zahn", "zo\u00eb zahn")
    verify = always(VerificationResult("wrong-password", source="directory"))
    with running_verifier(cell.config.verifier.port, cell.config.verifier.secret, verify):
        for name in names:
            attributes = encode_attribute(USER_NAME, name) + encode_attribute(CALLING_STATION_ID, new_mac())
            assert Nas(cell.alpha).ask(attributes, password=b"guess")[0] == ACCESS_REJECT
    assert [record.reason for record in cell.decisions()] == ["wrong-password"] * 4 + ["too-many-wrong-passwords"]
