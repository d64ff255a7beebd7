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
from nac.kit.radius_packet import ACCESS_CHALLENGE, ACCESS_REJECT, NAS_IDENTIFIER, encode_attribute
from tests.radius.devices import VERSIONS, Device
from tests.radius.inner_mschap import finish, mschap_answer, open_mschap, open_verified, say_eap
from tests.radius.nas import log_in
from tests.radius.supplicant import new_mac
from tests.radius.tenants import PASSWORD, PRINTER
from tests.radius.tunnel import IDENTITY, PEAP, RESPONSE, TLS, TTLS, Tunnel, eap, login
from tests.verifier.verifier_server import always, running_verifier

SUCCESS, EXPANDED = 3, 254

pytestmark = pytest.mark.usefixtures("everything_offered")


def expanded(identifier, kind, data=b""):
    return eap(RESPONSE, identifier, EXPANDED, b"\0\0\0\0\0\0" + bytes((kind,)) + data)


def certificate_tunnel(cell, name, version, **options):
    client = cell.alpha.clients[name]
    context = client_context(certificate=str(client.chain_file), key=str(client.key_file), version=version)
    return Tunnel(cell.alpha, TLS, context=context, **options)


def verifier_of(cell, verify):
    return running_verifier(cell.config.verifier.port, cell.config.verifier.secret, verify)


@pytest.mark.parametrize("version", VERSIONS)
def test_expanded_last_tls_packet_is_not_mab(cell, version):
    sealed = cell.sealer.seal(b"text-of-the-switch", mab_password_context("n"))
    nas = NasRecord("n", "Fixed", cell.alpha.site_id, "cisco", mab_password="fixed", sealed_mab_password=sealed)
    with cell.changes() as batch:
        batch.put_nas(keys.by_identifier(cell.alpha.number, "fixed"), nas)
    tunnel = certificate_tunnel(cell, "revoked", version, outer=PRINTER, mac=PRINTER)
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
def test_conversations_before_the_limit_do_not_bypass_it(cell, kind):
    name = f"guessed-{kind}"
    cell.set_slot(methods=METHODS, password_failure_limit=3)
    with cell.changes() as batch:
        batch.put_user(cell.alpha.number, cell.alpha.user(name, cell.sealer))
    *opened, last = [open_mschap(cell.alpha, kind, name=name) for _ in range(5)]
    for tunnel in opened:
        say_eap(tunnel, kind, mschap_answer(tunnel, name, "wrong"))
    say_eap(last, kind, mschap_answer(last, name, PASSWORD))
    assert b"S=" not in last.heard
    assert finish(last) == ACCESS_REJECT
    assert cell.decision(mac=last.mac).reason == "too-many-wrong-passwords"


def test_logins_waiting_for_the_verifier_do_not_bypass_it(cell):
    cell.set_slot(password_failure_limit=3)
    cell.put_argon2_user("awaited", PASSWORD)
    everybody_asked = threading.Event()

    async def verify(slot, name, password):
        while not everybody_asked.is_set() or (password == b"right" and len(cell.decisions()) < 4):
            await asyncio.sleep(0.01)
        return VerificationResult("" if password == b"right" else "wrong-password")

    with verifier_of(cell, verify) as running, ThreadPoolExecutor(5) as devices:
        codes = [devices.submit(log_in, cell.alpha, "awaited", word) for word in ("right", *["wrong"] * 4)]
        running.wait_for_logins(5)
        everybody_asked.set()
        assert [code.result() for code in codes] == [ACCESS_REJECT] * 5
    assert cell.decisions()[-1].reason == "too-many-wrong-passwords"


def test_wrong_passwords_of_a_closed_station_are_counted(cell):
    cell.set_slot(failure_limit=2, password_failure_limit=3)
    cell.put_argon2_user("waiting", PASSWORD)
    station, is_closed = new_mac(), threading.Event()

    async def verify(slot, name, password):
        while not is_closed.is_set():
            await asyncio.sleep(0.01)
        return VerificationResult("" if password == b"right" else "wrong-password")

    with verifier_of(cell, verify) as running, ThreadPoolExecutor(3) as devices:
        codes = [devices.submit(log_in, cell.alpha, "waiting", "wrong", station=station) for _ in range(3)]
        running.wait_for_logins(3)
        for _ in range(2):
            assert log_in(cell.alpha, "stranger", "any", station=station) == ACCESS_REJECT
        is_closed.set()
        assert [code.result() for code in codes] == [ACCESS_REJECT] * 3
        assert log_in(cell.alpha, "waiting", "right") == ACCESS_REJECT
    assert cell.decisions()[-1].reason == "too-many-wrong-passwords"


def test_password_in_a_resumed_session_keeps_the_tls_version(cell):
    """`radiusd` records no version if data follows the end of the handshake, and it resumes certificate sessions."""
    device = Device(cell.alpha.clients["laptop"], ssl.TLSVersion.TLSv1_2)
    device.visit(cell.alpha)
    cell.forget_records()
    cell.set_slot(methods=METHODS, tls_versions=("1.3",))
    tunnel = device.resume_in_tunnel(cell.alpha, TTLS).open()
    assert tunnel.tls.session_reused
    assert tunnel.say(login(b"anna", PASSWORD.encode())) == ACCESS_REJECT
    assert cell.decision().permitted is False


def test_data_after_the_handshake_keeps_the_tls_version(cell):
    cell.set_slot(methods=METHODS, tls_versions=("1.2",))
    tunnel = certificate_tunnel(cell, "laptop", ssl.TLSVersion.TLSv1_3, outer="laptop").open()
    tunnel.say(b"data")
    assert finish(tunnel) == ACCESS_REJECT
    assert (cell.decision().reason, cell.decision().tls_version) == ("tls-version", "1.3")


def test_equivalent_directory_names_count_together(cell):
    cell.set_slot(password_failure_limit=4)
    with cell.changes() as batch:
        cell.alpha.put_source(batch)
    with verifier_of(cell, always(VerificationResult("wrong-password", source="directory"))):
        for name in ("zoe zahn", "ZOE ZAHN", "zoe  zahn", "zo\uff45 zahn", "zo\u00eb zahn"):
            assert log_in(cell.alpha, name, "guess") == ACCESS_REJECT
    assert [record.reason for record in cell.decisions()] == ["wrong-password"] * 4 + ["too-many-wrong-passwords"]
