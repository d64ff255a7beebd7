"""Passwords in EAP-TTLS that the verifier checks. radiusd proxies the inner request and then continues the tunnel."""

import pytest

from nac.inventory.identity_sources.verifier_messages import VerificationResult
from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_REJECT, USER_NAME
from tests.radius.supplicant import TLS_1_2, TLS_1_3, TTLS_MSCHAPV2, TTLS_PAP, eap_password
from tests.radius.tunnel import USER_PASSWORD, Tunnel, avp, login
from tests.radius.users import put_argon2_user
from tests.verifier.verifier_server import always, running_verifier

STAFF = VerificationResult(source="directory", name="Zoe", groups=("staff",))


@pytest.fixture(autouse=True)
def source(cell, replica):
    with replica.begin() as batch:
        cell.alpha.put_source(batch)
        put_argon2_user(batch, cell, "otto", "correct horse battery")


@pytest.fixture
def verifier(cell):
    def start(answer):
        return running_verifier(cell.config.verifier.port, cell.config.verifier.secret, always(answer))

    return start


def test_accepted_password_is_decided_with_the_sources_data(cell, verifier):
    with verifier(STAFF) as running:
        assert Tunnel(cell.alpha).open().say(login(b"zoe", b"open sesame")) == ACCESS_ACCEPT
    assert set(running.asked) == {(cell.alpha.slot, b"zoe", b"open sesame")}
    record = cell.decision()
    assert (record.permitted, record.reason, record.method) == (True, "rule-permitted", "eap-ttls-pap")
    assert record.identity == "zoe"
    assert record.request["user.group"] == ("staff",)
    assert record.request["user.source"] == ("directory",)


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
def test_rejected_password_has_the_sources_reason(cell, verifier, version):
    with verifier(VerificationResult("account-locked", "by the directory")):
        seen = eap_password(cell.alpha, TTLS_PAP, "zoe", "open sesame", version).run()
    assert (seen.codes[-1], seen.eap_failure, seen.vlans) == ("Access-Reject", True, [])
    record = cell.decision()
    assert (record.permitted, record.reason, record.detail) == (False, "account-locked", "by the directory")
    assert (record.method, record.identity) == ("eap-ttls-pap", "zoe")


def test_reject_of_a_name_that_is_not_text_is_logged(cell, verifier):
    with verifier(VerificationResult("unknown-user")):
        assert Tunnel(cell.alpha).open().say(login(b"\xff\xfe", b"open sesame")) == ACCESS_REJECT
    assert (cell.decision().reason, cell.decision().identity) == ("unknown-user", "=FF=FE")


def test_directory_user_with_mschap_gets_advice(cell, verifier):
    with verifier(STAFF) as running:
        seen = eap_password(cell.alpha, TTLS_MSCHAPV2, "zoe", "open sesame").run()
    assert (seen.accepted, running.asked) == (False, [])
    record = cell.decision()
    assert (record.reason, record.method, record.identity) == ("directory-needs-pap", "eap-ttls-mschapv2", "zoe")


@pytest.mark.parametrize(
    "said",
    [
        avp(USER_NAME, b"zoe") + login(b"otto", b"open sesame"),
        login(b"zoe", b"open sesame") + avp(USER_PASSWORD, b"another password"),
        avp(USER_PASSWORD, b"open sesame" + bytes(5)),
        login(b"\0zoe", b"open sesame"),
    ],
    ids=["two names", "two passwords", "no name", "a name that begins with NUL"],
)
def test_request_without_a_login_is_answered_at_once(cell, verifier, said):
    """`radiusd` would mark a silent verifier as dead, which affects all users."""
    with verifier(STAFF) as running:
        assert Tunnel(cell.alpha).open().say(said) == ACCESS_REJECT
    assert running.asked == []
    assert running.server.counters["dropped"] == 0
    assert cell.decision().reason == "no-credentials"
