"""`rsyslog`, an independent receiver, parses the events."""

import json

from nac.logs.feeds.settings import SyslogSettings
from tests.feeds.conftest import Tenancy
from tests.feeds.rsyslog import Rsyslog
from tests.feeds.syslog_receiver import LOCALHOST


def test_rsyslog_parses_every_event(acme: Tenancy, tmp_path):
    with Rsyslog(tmp_path).running() as rsyslog:
        acme.add(
            settings=SyslogSettings(
                host="localhost", port=rsyslog.port, ca_certificate=LOCALHOST.certificate, kinds=("authentication",)
            )
        )
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
