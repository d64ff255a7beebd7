"""The module's callbacks with any attributes: they never raise, and never permit an unauthorized device."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nac.cellformat.journal.records import AccountingRecord, AuthRecord, CertificateSentRecord
from nac.cellformat.packet_values import is_recordable
from nac.cellformat.replica.store import ReplicaWriter
from nac.inventory.profiling.sensor import is_sensor_pair
from nac.kit.secrets import MasterKeyFile, Sealer
from radius.module import acct, auth, radiusd_api
from radius.module.cell import get_cell
from radius.module.settings import ModuleSettings
from tests.radius.conftest import module_log
from tests.radius.standalone import JournalTail
from tests.radius.tenants import BLOCKED, EXPIRED, STOLEN, Authorities, Tenant
from tests.run_depth import examples

pytestmark = pytest.mark.early

fuzz = settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@dataclass(frozen=True)
class Module:
    auth: JournalTail
    acct: JournalTail
    tenant: Tenant

    def forget(self) -> None:
        self.auth.forget()
        self.acct.forget()
        module_log.clear()


@pytest.fixture(scope="module")
def module(tmp_path_factory) -> Iterator[Module]:
    """Both instances of the module, opened as radiusd opens them."""
    root = tmp_path_factory.mktemp("module")
    sealer = Sealer(MasterKeyFile.create(root / "key"))
    authorities = Authorities(root / "alpha", "Alpha")
    tenant = Tenant("alpha", 41, 0, authorities, authorities.server(), {}, "", 0, 0, baked=False)
    writer = ReplicaWriter(root / "replica", fresh=True)
    with writer.begin() as batch:
        tenant.fill(batch, sealer)
    writer.close()
    settings_file = root / "module.json"
    places = [str(root / name) for name in ("replica", "journal", "tls")]
    settings_file.write_bytes(msgspec.json.encode(ModuleSettings(*places, 1 << 30, "interval", {}, str(root / "key"))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADMIT_MODULE_SETTINGS", str(settings_file))
        get_cell.cache_clear()
        auth.instantiate(None)
        acct.instantiate(None)
    yield Module(JournalTail(root / "journal" / "auth"), JournalTail(root / "journal" / "acct"), tenant)
    auth.detach(None)
    acct.detach(None)
    get_cell().replica.close()
    get_cell.cache_clear()


PACKET_NAMES = """
    User-Name User-Password CHAP-Password EAP-Message EAP-Type State Service-Type Calling-Station-Id
    Called-Station-Id NAS-Identifier NAS-IP-Address NAS-IPv6-Address NAS-Port NAS-Port-Id NAS-Port-Type
    Acct-Status-Type Acct-Session-Id Module-Failure-Message EAP-Session-Resumed TLS-Client-Cert-Serial
    TLS-Client-Cert-Issuer TLS-Client-Cert-Common-Name TLS-Client-Cert-Filename TLS-Cert-Issuer Tunnel-Type:1
    Cisco-AVPair Device-Sensor
"""
INTERNAL_NAMES = """
    Admit-Slot Admit-Source Admit-Secret Admit-Method Admit-Stage Admit-Decided Admit-Microseconds
    Admit-MAB-Password Admit-Conversation TLS-Session-Version TLS-Cache-Filename
"""
# These attributes name no device or user that the policy permits. Other tests cover permitted devices.
VALUES = [
    *("", "0", "1", "2", "99999", "-1", "0x", "\0", "x" * 253, "x" * 1_000),
    *("Call-Check", "TLS", "NAK", "TLS 1.3", "reject", "certificate-sent", "mab", "pap", "chap", "eap-tls"),
    *(BLOCKED, EXPIRED, STOLEN, "02-A0-C0-00-00-02", "guest", "disabled", "lapsed"),
    *("switch-1", "192.0.2.1", "2001:db8::1", "00-10-A4-23-19-C0:corp", "/dev/null"),
    *("/CN=x", "/O=Alpha/CN=Alpha Issuing CA", "0x" + b"dhcp-option=\0\x0c\0\x01x".hex()),
]
value = st.sampled_from(VALUES) | st.text(max_size=40)
_numbers = itertools.count()
pair = st.tuples(st.sampled_from([*PACKET_NAMES.split(), *INTERNAL_NAMES.split()]) | st.text(max_size=20), value)
pairs = st.none() | st.lists(pair, max_size=12).map(tuple)
# Most packets have the marks that radiusd sets, so that the tests reach more than the callback's first line.
OURS = (("Admit-Slot", "slot_0"), ("Admit-Source", "127.0.0.1"))
marked = st.lists(pair, max_size=12).map(lambda found: (*OURS, *found))
lists = st.fixed_dictionaries(
    {"request": marked | pairs, "config": pairs, "session-state": pairs, "reply": pairs, "proxy-request": st.none()}
)
# HANDLED: the packet is for an unassigned slot, so radiusd sends no response.
CODES = {getattr(radiusd_api, name) for name in ("REJECT", "FAIL", "OK", "NOOP", "UPDATED", "HANDLED")}


def parts(answer):
    return answer if isinstance(answer, tuple) else (answer, {})


def assert_permits_nobody(module, answer):
    code, updates = parts(answer)
    assert code in CODES
    assert ("Auth-Type", "=", "Accept") not in updates.get("config", ())
    # MS-CHAP-Error is part of an Access-Reject (RFC 2548 2.1.5).
    assert {item[0] for item in updates.get("reply", ())} <= {"MS-CHAP-Error"}
    for items in updates.values():
        for item in items:
            assert len(item) == 3
            assert all(isinstance(word, str) for word in item)
    for record in module.auth.records():
        assert not isinstance(record, AuthRecord) or record.permitted is False
    module.forget()


@fuzz
@given(lists=lists)
def test_first_packet_with_any_attributes_permits_nobody(module, lists):
    assert_permits_nobody(module, auth.authorize(lists))


@fuzz
@given(lists=lists)
def test_any_attributes_at_conversation_end_permit_nobody(module, lists):
    assert_permits_nobody(module, auth.post_auth(lists))


@fuzz
@given(pairs=marked | pairs)
def test_accounting_with_any_attributes_is_stored_or_dropped(module, pairs):
    module.forget()
    # Each record differs, because an equal record may count as retransmitted.
    pairs = (*(pairs or ()), ("Acct-Session-Id", f"session-{next(_numbers)}"))
    code = acct.accounting(pairs)
    records = module.acct.records()
    if code == radiusd_api.OK:
        (record,) = records
        assert isinstance(record, AccountingRecord)
        assert record.attributes == tuple(each for each in pairs if is_recordable(each[0]) and is_sensor_pair(each))
    else:
        assert code == radiusd_api.FAIL
        assert records == []
    module.forget()


def call(module, callback, *request, config=(), state=()):
    module.forget()
    marked = (*OURS, *request)
    return parts(callback({"request": marked, "config": config, "session-state": state, "reply": None}))


PRINTER = (("User-Name", "02a0c0000001"), ("Calling-Station-Id", "02a0c0000001"))


def test_known_device_is_permitted_so_the_tests_above_can_fail(module):
    code, updates = call(module, auth.authorize, *PRINTER, ("User-Password", "02a0c0000001"))
    assert code == radiusd_api.UPDATED
    assert ("Auth-Type", "=", "Accept") in updates["config"]
    (record,) = module.auth.records()
    assert record.permitted


def test_credentials_for_radiusd_to_compare_are_undecided(module):
    code, updates = call(module, auth.authorize, *PRINTER, ("CHAP-Password", "0x07"))
    assert code == radiusd_api.UPDATED
    assert "Admit-Decided" not in [name for name, _, _ in updates["config"]]
    assert module.auth.records() == []


TLS = (("EAP-Message", "0x020100060d00"), ("EAP-Type", "TLS"))


@pytest.mark.parametrize(
    ("request_pairs", "state", "reason", "detail"),
    [
        # radiusd reports no failure, but no method confirms a credential.
        ((), (), "method-not-offered", ""),
        (TLS[1:], (("TLS-Session-Version", "TLS 1.3"),), "certificate-invalid", ""),
        (TLS, (), "eap-failed", "radiusd has no state of this conversation"),
        (
            TLS,
            (("Admit-Participants", "x"), *2 * (("TLS-Cache-Filename", "/a"),)),
            "eap-failed",
            "two TLS handshakes in one conversation",
        ),
    ],
    ids=["no method", "no certificate", "no state", "two handshakes"],
)
def test_end_without_a_confirmed_credential_is_rejected(module, request_pairs, state, reason, detail):
    code, _ = call(module, auth.post_auth, *PRINTER, *request_pairs, state=state)
    assert code == radiusd_api.REJECT
    (record,) = module.auth.records()
    assert record.reason == reason
    assert record.detail.startswith(detail)


@pytest.mark.parametrize(
    "eap",
    [TLS, (("EAP-Message", "0x020100060400"), ("EAP-Type", "MD5")), (("User-Password", "x"),)],
    ids=["EAP-TLS", "EAP-MD5", "PAP"],
)
def test_tunnel_name_is_ignored_outside_the_tunnel(module, eap):
    state = (("Admit-Participants", "x"), ("Admit-User", "anna"), ("Admit-Method", "peap-mschapv2"))
    call(module, auth.post_auth, *PRINTER, *eap, state=state)
    (record,) = module.auth.records()
    assert record.identity == "02a0c0000001"


@pytest.mark.parametrize("slot", ["", "x", "slot_", "slot_-1", "slot_70000", None])
def test_packet_that_radiusd_has_not_marked_permits_nobody(module, slot):
    module.forget()
    request = PRINTER if slot is None else (("Admit-Slot", slot), *PRINTER)
    for callback in (auth.authorize, auth.post_auth):
        code, _ = parts(callback({"request": request, "config": None, "session-state": None, "reply": None}))
        assert code == radiusd_api.REJECT
    assert acct.accounting(request) == radiusd_api.FAIL
    assert module.auth.records() == module.acct.records() == []
    # The exception is logged with its stack trace.
    assert module_log[:2] == ["admit: internal-error in authorize", "admit:   Traceback (most recent call last):"]
    assert [line for line in module_log if "\n" in line] == []


def test_certificate_sent_is_journalled_with_the_name(module):
    code, updates = call(module, auth.post_auth, *PRINTER, config=(("Admit-Stage", "certificate-sent"),))
    assert code == radiusd_api.UPDATED
    (record,) = module.auth.records()
    assert isinstance(record, CertificateSentRecord)
    assert updates == {"session-state": (("Admit-Conversation", ":=", record.conversation),)}


def test_time_of_the_first_packet_counts_towards_the_record(module):
    config = ("Admit-Stage", "reject"), ("Admit-Method", "chap"), ("Admit-Microseconds", "5000")
    call(module, auth.post_auth, *PRINTER, config=config)
    (record,) = module.auth.records()
    assert (record.reason, record.method) == ("wrong-password", "chap")
    assert 5_000 <= record.module_microseconds < 1_000_000


def test_long_name_is_truncated_in_the_journal(module):
    call(module, auth.authorize, ("User-Name", "x" * 1_000), ("User-Password", "y"))
    assert module.auth.records()[0].identity == "x" * auth.MAX_NAME_CHARACTERS
