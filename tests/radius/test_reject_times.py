"""The time to a reject does not reveal that the password was right."""

import os
import time
from base64 import b85encode
from concurrent.futures import ThreadPoolExecutor

import pytest

from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_REJECT
from radius.agent.alarms import Alarms
from tests.radius.nas import log_in
from tests.radius.standalone import Plan, running_cell
from tests.radius.tunnel import Tunnel
from tests.radius.tunnel import login as login_inside
from tests.verifier.verifier_server import kept_verifier

DELAY_SECONDS = 1
PASSWORD, WRONG = "correct horse battery", "wrong horse battery"
REPLY_MESSAGE, PROXY_STATE = 18, 33


@pytest.fixture(scope="module")
def delaying_cell():
    """A cell whose radiusd and verifier delay rejects, as in production."""
    with (
        running_cell(Plan(reject_delay_seconds=DELAY_SECONDS)) as cell,
        kept_verifier(cell.paths, cell.config.verifier.port, Alarms(), reject_delay_seconds=DELAY_SECONDS),
    ):
        yield cell


@pytest.fixture(autouse=True)
def users(delaying_cell):
    """The policy admits staff. gus is a guest."""
    delaying_cell.forget_records()
    delaying_cell.put_argon2_user("otto", PASSWORD)
    delaying_cell.put_argon2_user("gus", PASSWORD, groups=("guests",))


def login(cell, name, password, *more):
    """The response's code, and its duration in seconds."""
    started = time.monotonic()
    return log_in(cell.alpha, name, password, *more, seconds=12), time.monotonic() - started


def login_in_ttls(cell, name, password):
    tunnel = Tunnel(cell.alpha).open()
    started = time.monotonic()
    return tunnel.say(login_inside(name.encode(), password.encode())), time.monotonic() - started


@pytest.mark.parametrize("log_in", [login, login_in_ttls])
@pytest.mark.parametrize("password", [WRONG, PASSWORD])
def test_denied_user_waits_as_long_as_for_a_wrong_password(delaying_cell, log_in, password):
    # Each login runs twice, because the verifier caches correct passwords.
    for _ in range(2):
        code, seconds = log_in(delaying_cell, "gus", password)
        assert code == ACCESS_REJECT
        assert seconds >= DELAY_SECONDS
    reasons = {record.reason for record in delaying_cell.decisions(identity="gus")}
    assert reasons == {"wrong-password" if password == WRONG else "rule-denied"}


def is_admitted_before_another_is_rejected(cell, *more):
    with ThreadPoolExecutor(1) as devices:
        denied = devices.submit(login, cell, "gus", PASSWORD)
        assert login(cell, "otto", PASSWORD, *more)[0] == ACCESS_ACCEPT
        is_first = not denied.done()
        assert denied.result()[0] == ACCESS_REJECT
    return is_first


def test_admitted_user_does_not_wait(delaying_cell):
    # A busy machine may be late in one attempt, but not in every attempt.
    assert any(is_admitted_before_another_is_rejected(delaying_cell) for _ in range(4))


def test_oversized_verifier_request_is_decided_after_the_delay(delaying_cell):
    long = [(REPLY_MESSAGE, b85encode(os.urandom(192))) for _ in range(14)]
    code, seconds = login(delaying_cell, "otto", PASSWORD, *long)
    assert code == ACCESS_ACCEPT
    assert seconds >= DELAY_SECONDS


def test_long_proxy_state_does_not_delay_an_admitted_user(delaying_cell):
    proxies = [(PROXY_STATE, os.urandom(253)) for _ in range(15)]
    assert any(is_admitted_before_another_is_rejected(delaying_cell, *proxies) for _ in range(4))
