"""Syslog over TLS: delivery, redelivery and refused connections."""

import json
import threading

import pytest

from nac.kit.outbound.reach import DEFAULT_REACH
from nac.logs.feeds import service
from nac.logs.feeds.service import FeedUnreachable
from nac.logs.feeds.settings import SyslogSettings
from tests.factories.certificates import SEALER
from tests.feeds.certificates import self_signed
from tests.feeds.conftest import LOOPBACK, Tenancy
from tests.feeds.rsyslog import Rsyslog
from tests.feeds.syslog_receiver import LOCALHOST, SyslogReceiver
from tests.outbound.listener import listening
from tests.polling import until

KINDS = ("authentication",)


@pytest.fixture
def receiver(tmp_path):
    with SyslogReceiver(tmp_path).listening() as receiver:
        yield receiver


def settings(receiver: SyslogReceiver | Rsyslog, **given) -> SyslogSettings:
    common = {"host": "localhost", "ca_certificate": LOCALHOST.certificate, "kinds": KINDS}
    return SyslogSettings(port=receiver.port, **common | given)


def test_rsyslog_parses_every_event(acme: Tenancy, tmp_path):
    """`rsyslog` is an independent receiver."""
    with Rsyslog(tmp_path).running() as rsyslog:
        acme.add(settings=settings(rsyslog))
        names = [f'user {number} "x]\\ 🦉' for number in range(700)]
        acme.log(*names)
        acme.deliver()
        assert acme.state() == "ok"
        received = rsyslog.received(len(names))
    assert [json.loads(each["body"])["user"]["name"] for each in received] == names
    first = received[0]
    assert (first["priority"], first["app_name"], first["message_id"]) == ("86", "admit", "device-admitted")
    assert first["data"].startswith('[admit@32473 id="authentication:')
    assert first["timestamp"] == json.loads(first["body"])["@timestamp"]


def test_events_arrive_in_order_over_one_connection(acme: Tenancy, receiver: SyslogReceiver):
    acme.add(settings=settings(receiver))
    names = [f"user {number}" for number in range(1_200)]
    acme.log(*names)
    acme.deliver()
    assert receiver.names == names
    assert receiver.connections == 1
    assert receiver.rests == [b""]
    feed = acme.feed()
    assert (feed.delivered, feed.lost, acme.state()) == (1_200, 0, "ok")
    acme.deliver()
    assert len(receiver.messages) == 1_200


def test_repeatedly_failing_receiver_loses_nothing(acme: Tenancy, receiver: SyslogReceiver):
    acme.add(settings=settings(receiver))
    names = [f"user {number}" for number in range(1_500)]
    acme.log(*names)
    receiver.reset_after = 700
    acme.deliver()
    assert acme.state() == "failing"
    assert "connection" in acme.feed().failure
    assert acme.feed().delivered < 1_500
    receiver.reset_after = None
    acme.deliver()
    # Unconfirmed events are sent twice, with equal ids.
    assert len(set(receiver.ids)) == 1_500
    assert list(dict.fromkeys(receiver.names)) == names
    assert acme.state() == "ok"


def test_events_acknowledged_but_unread_are_sent_again(acme: Tenancy, receiver: SyslogReceiver):
    acme.add(settings=settings(receiver))
    acme.log("a", "b", "c")
    # TCP has acknowledged all octets when the receiver is killed.
    receiver.reads.clear()
    receiver.reset_after = 0
    dies = threading.Timer(0.4, receiver.reads.set)
    dies.start()
    acme.deliver()
    dies.join()
    assert (acme.feed().delivered, acme.state()) == (0, "failing")
    receiver.reset_after = None
    acme.deliver()
    assert receiver.names == ["a", "b", "c"]


def test_receiver_that_reads_nothing_times_out_and_is_retried(acme: Tenancy, receiver: SyslogReceiver):
    acme.add(settings=settings(receiver, timeout_seconds=1.0))
    names = [f"{number} {'x' * 900}" for number in range(6_000)]
    acme.log(*names)
    receiver.reads.clear()
    acme.deliver()
    assert "did not accept the messages within 1 s" in acme.feed().failure
    # After a timeout, the batch size is halved. After a success, it grows.
    assert acme.feed().at_once == 250
    receiver.reads.set()
    until(lambda: not acme.deliver() and set(receiver.names) == set(names), "it is sent again")
    assert acme.feed().at_once is None


@pytest.mark.parametrize(("shown", "trusted"), [("localhost", "other"), ("siem.example", "siem.example")])
def test_untrusted_or_misnamed_certificate_is_rejected(acme: Tenancy, tmp_path, shown: str, trusted: str):
    with SyslogReceiver(tmp_path, pair=self_signed(shown)).listening() as receiver:
        acme.add(settings=settings(receiver, ca_certificate=self_signed(trusted).certificate))
        acme.log("a")
        acme.deliver()
    assert "nvalid certificate" in acme.feed().failure
    assert receiver.messages == []


@pytest.mark.usefixtures("dotted_names")
def test_trailing_dot_in_the_name_is_accepted(acme: Tenancy, receiver: SyslogReceiver):
    acme.add(settings=settings(receiver, host="localhost."))
    acme.log("a")
    acme.deliver()
    assert (receiver.names, acme.state()) == (["a"], "ok")


def test_client_certificate_is_sent(acme: Tenancy, tmp_path):
    mine = self_signed("nac.example")
    with SyslogReceiver(tmp_path, of_clients=mine.certificate).listening() as receiver:
        acme.add("shown", settings(receiver, client_certificate=mine.certificate), client_key=mine.key)
        acme.add("none", settings(receiver))
        acme.log("a")
        acme.deliver("none")
        assert acme.state("none") == "failing"
        assert acme.feed("none").delivered == 0
        acme.deliver("shown")
        assert receiver.names == ["a"]
        # The server does not trust the other certificate.
        new = self_signed("nac-2.example")
        acme.do(service.update_client_certificate, "shown", certificate=new.certificate, key=new.key, sealer=SEALER)
        acme.log("b")
        acme.deliver("shown")
        assert acme.state("shown") == "failing"
    assert mine.key.encode() not in acme.feed("shown").secret_sealed


def test_unreachable_receiver_gives_a_readable_error(acme: Tenancy, tmp_path):
    with SyslogReceiver(tmp_path).listening() as receiver:
        acme.add(settings=settings(receiver))
    acme.log("a")
    acme.deliver()
    assert "Cannot connect" in acme.feed().failure


def test_receiver_without_tls_times_out(acme: Tenancy):
    with listening() as silent:
        acme.add(settings=SyslogSettings(host="localhost", port=silent.getsockname()[1], timeout_seconds=1.0))
        acme.log("a")
        acme.deliver()
    assert "did not accept the connection within 1 s" in acme.feed().failure
    assert acme.feed().at_once is None


def test_internal_addresses_are_blocked(acme: Tenancy, receiver: SyslogReceiver):
    acme.add(settings=settings(receiver))
    acme.add("within", settings(receiver, networks=("10.0.0.0/8",)))
    acme.log("a")
    acme.deliver(reach=DEFAULT_REACH)
    assert "loopback" in acme.feed().failure
    acme.deliver("within", reach=LOOPBACK)
    assert "outside of the configured networks" in acme.feed("within").failure
    assert receiver.connections == 0


def test_event_is_sent_at_once(acme: Tenancy, receiver: SyslogReceiver):
    acme.add(settings=settings(receiver))
    given = {"reach": LOOPBACK, "sealer": SEALER}
    sent = acme.test(**given)
    [message] = receiver.messages
    assert (message.message_id, message.parameters["id"]) == ("feed-tested", sent)
    with pytest.raises(FeedUnreachable, match="loopback"):
        acme.test(**given | {"reach": DEFAULT_REACH})
