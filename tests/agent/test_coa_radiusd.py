"""FreeRADIUS as the NAS: an independent implementation of RFC 5176 parses the agent's requests.

It rejects some requests with an Error-Cause.
"""

import subprocess
from pathlib import Path

import pytest

from nac.kit.outbound.reach import OutboundReach
from radius.agent.coa.queue import CoaQueue
from tests.agent import nas_simulator
from tests.agent.nas_simulator import (
    SECRET,
    SOURCE,
    add_session,
    add_vendor_nas,
    ask,
    make_sender,
    outcome,
    own_address,
    running,
)
from tests.polling import until

# This NAS ends only sessions of the user anna, knows no vendor command, and has only some VLANs.
CONFIGURATION = """
prefix = {folder}
logdir = {folder}
run_dir = {folder}
libdir = /usr/lib/freeradius
modconfdir = {folder}
pidfile = {folder}/radiusd.pid
max_request_time = 10
client admit {{
    ipaddr = {source}
    secret = "{secret}"
    require_message_authenticator = yes
}}
modules {{
    always reject {{
        rcode = reject
    }}
    always ok {{
        rcode = ok
    }}
}}
server nas {{
    listen {{
        type = coa
        ipaddr = {address}
        port = {port}
    }}
    recv-coa {{
        if (&Cisco-AVPair) {{
            update reply {{
                &Error-Cause := Unsupported-Extension
            }}
            reject
        }}
        elsif (&User-Name && &User-Name != "anna") {{
            update reply {{
                &Error-Cause := Session-Context-Not-Found
            }}
            reject
        }}
        elsif (&Tunnel-Private-Group-Id && &Tunnel-Private-Group-Id != "20") {{
            update reply {{
                &Error-Cause := Invalid-Attribute-Value
            }}
            reject
        }}
        else {{
            ok
        }}
    }}
    send-coa {{
        ok
    }}
}}
"""


class Freeradius:
    def __init__(self, folder: Path, port: int, *, address: str = "", source: str = SOURCE) -> None:
        self.address, self._folder, self._port = address or own_address(), folder, port
        self._source = source
        (folder / "dictionary").write_text("")

    def __enter__(self):
        text = CONFIGURATION.format(
            folder=self._folder, secret=SECRET.decode(), address=self.address, port=self._port, source=self._source
        )
        (self._folder / "radiusd.conf").write_text(text)
        with (self._folder / "output").open("wb") as log:
            self._process = subprocess.Popen(
                ["freeradius", "-f", "-X", "-d", self._folder, "-n", "radiusd"], stdout=log, stderr=log
            )
        until(lambda: self._process.poll() is not None or "Ready to process" in self.log(), "radiusd is ready")
        assert self._process.poll() is None, self.log()
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(20)

    def log(self) -> str:
        return (self._folder / "output").read_text(errors="replace")


@pytest.fixture(scope="module")
def freeradius(tmp_path_factory):
    with Freeradius(tmp_path_factory.mktemp("nas"), 3799) as nas:
        yield nas


@pytest.fixture(scope="module")
def cisco(tmp_path_factory):
    with Freeradius(tmp_path_factory.mktemp("cisco"), 1700) as nas:
        yield nas


def ends(owner, request):
    return nas_simulator.ends(owner, request, "state", "answer_code", "error_cause", "step")


def test_known_session_is_ended_and_another_is_rejected(owner, alpha, freeradius, sender, request_of):
    known = request_of(freeradius.address)
    unknown = ask(owner, add_session(owner, alpha, freeradius.address, identity="bert"))
    assert ends(owner, known) == ("acknowledged", 41, None, 0)
    assert ends(owner, unknown) == ("refused", 42, 503, 0)
    assert "The NAS does not know this session" in outcome(owner, unknown, "detail")
    assert not sender.counters["answers_forged"]


def test_change_is_applied_or_rejected(owner, freeradius, sender, request_of):
    for vlan, result in (("20", ("acknowledged", 44, None, 0)), ("99", ("refused", 45, 407, 0))):
        pair = f'[{{"attribute": "Tunnel-Private-Group-Id", "value": "{vlan}", "tag": 1}}]'
        assert ends(owner, request_of(freeradius.address, "change", attributes=pair)) == result


def test_unknown_command_continues_the_recipe(owner, alpha, cisco, sender, request_of):
    nas_id = add_vendor_nas(owner, alpha, cisco.address, "cisco")
    request = request_of(cisco.address, "reauthenticate", nas_id=nas_id)
    assert ends(owner, request) == ("acknowledged", 41, None, 1)


def test_nas_with_another_secret_does_not_answer(owner, freeradius, cell_engine, platform, request_of):
    """FreeRADIUS drops packets that are not signed with its secret (RFC 5176 2.3)."""

    class OtherSealer:
        def open(self, sealed, context):
            return b"another secret"

    queue = CoaQueue(cell_engine, platform.cell_id, OtherSealer())
    with running(make_sender(cell_engine, platform.cell_id, queue=queue)):
        assert ends(owner, request_of(freeradius.address)) == ("unanswered", None, None, 0)


@pytest.mark.parametrize("listens", ["::1", "::"])
def test_nas_with_an_ipv6_address_is_contacted_over_ipv6(
    listens, owner, alpha, cell_engine, platform, request_of, tmp_path_factory
):
    """The agent sends from the cell's address.

    If the cell listens on all addresses, it sends from the routed address.
    """
    folder = tmp_path_factory.mktemp("six")
    with (
        Freeradius(folder, 3799, address="::1", source="::1") as nas,
        running(make_sender(cell_engine, platform.cell_id, source=listens, reach=OutboundReach.parse("::1"))) as sender,
    ):
        known = request_of("::1")
        unknown = ask(owner, add_session(owner, alpha, "::1", identity="bert"))
        of_registered = request_of("2001:db8::7", nas_id=add_vendor_nas(owner, alpha, "::1"))
        assert ends(owner, known) == ("acknowledged", 41, None, 0)
        assert ends(owner, unknown) == ("refused", 42, 503, 0)
        assert ends(owner, of_registered) == ("acknowledged", 41, None, 0)
        # RFC 5176 3: the NAS is identified by its own attributes.
        until(lambda: "NAS-IPv6-Address = 2001:db8::7" in nas.log(), "it has said what it read")
        assert "NAS-IPv6-Address = ::1" in nas.log()
        if listens == "::1":
            # The cell has no IPv4 address to send from.
            assert ends(owner, request_of(SOURCE)) == ("unreachable", None, None, 0)
    assert not sender.counters["answers_forged"]
    assert not sender.counters["answers_foreign"]
