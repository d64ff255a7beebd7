"""A real radiusd takes over the ports of another radiusd without dropping packets.

If the new radiusd fails, the old radiusd takes the ports back.
"""

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from cli.demo.tools import RadiusServer
from nac.kit.listen_addresses import bind_socket
from radius.agent.paths import CellPaths
from radius.agent.radiusd import port_takeover, process
from radius.agent.radiusd.probe import is_serving
from radius.agent.radiusd.replacement import Radiusd
from tests.agent.conftest import adopted_radiusd
from tests.agent.steady_load import Load
from tests.polling import until

MAC = "00:00:5e:00:53:01"


def replace_radiusd(radiusd: Radiusd) -> str:
    return radiusd.renew(is_quiet=lambda _: True)


def is_served(radiusd: Radiusd) -> bool:
    status = radiusd.generation.facts.status
    return is_serving("127.0.0.1", status.port, status.secret, seconds=5)


@pytest.mark.parametrize(
    ("listen_address", "hosts", "taken"),
    # With `::`, each port accepts IPv4 and IPv6.
    [("127.0.0.1", ("127.0.0.1",), ("127.0.0.1",)), ("::", ("127.0.0.1", "::1"), ("0.0.0.0", "::"))],  # noqa: S104
)
def test_replacement_under_load_drops_nothing(listen_address, hosts, taken, tmp_path):
    with adopted_radiusd(tmp_path, listen_address) as radiusd:
        facts = radiusd.generation.facts
        servers = [RadiusServer(host, *facts.ports[:2], facts.endpoints[0].secret) for host in hosts]
        pids = [radiusd.running.pid]
        with Load(servers, MAC, per_second=300).running() as load:
            since = time.monotonic()
            for _ in range(2):
                time.sleep(0.3)
                assert replace_radiusd(radiusd) == ""
                pids.append(radiusd.running.pid)
            time.sleep(0.3)
            until_then = time.monotonic()
            load.settle(until_then)
        assert len(set(pids)) == 3
        assert process.start_ticks(pids[0]) == -1
        for server in servers:
            figures = load.figures(server, since, until_then)
            assert figures.sent > 100
            assert figures.dropped == 0
        for port in radiusd.generation.facts.ports:
            for address in taken:
                with pytest.raises(OSError, match="in use"):
                    bind_socket(address, port, socket.SOCK_DGRAM, reuses=True)
        # The search for sockets must not touch other files. A journal that is opened twice would never be shipped.
        opened = [each.readlink() for each in Path(f"/proc/{pids[-1]}/fd").iterdir()]
        assert sorted(path.parent.name for path in opened if path.suffix == ".journal") == ["acct", "auth"]
        # The replaced radiusd answers the requests that it has received, then exits.
        until(lambda: radiusd.tick() or process.start_ticks(pids[1]) == -1, "its end")
        assert is_served(radiusd)


@pytest.mark.parametrize("fails_at", ["share", "bind", "leave", "take"])
def test_radiusd_that_keeps_its_ports_is_stopped_first(radiusd, monkeypatch, fails_at):
    """An earlier version answers health checks but does not implement the hand-over of ports."""
    old, does = radiusd.running, port_takeover.run_port_step

    def refuse(port: int, secret: str, word: str, *, seconds: float) -> bool:
        return does(port, secret, word, seconds=seconds) and word != fails_at

    monkeypatch.setattr(port_takeover, "run_port_step", refuse)
    assert replace_radiusd(radiusd) == ""
    assert not process.is_alive(old)
    assert is_served(radiusd)


@pytest.mark.parametrize("answers_before", [False, True])
def test_old_radiusd_continues_if_the_new_one_does_not_answer(radiusd, monkeypatch, answers_before):
    """The old radiusd uses its original ports, or the ports that it took over earlier."""
    old = radiusd.running.pid
    answers, has_answered = radiusd._answers, iter([answers_before, False])
    monkeypatch.setattr(
        radiusd, "_answers", lambda running, generation: answers(running, generation) and next(has_answered)
    )
    assert "does not respond" in replace_radiusd(radiusd)
    assert radiusd.running.pid == old
    assert is_served(radiusd)
    monkeypatch.undo()
    assert replace_radiusd(radiusd) == ""
    assert radiusd.running.pid != old
    assert is_served(radiusd)


def test_radiusd_left_midway_by_an_agent_is_ended_by_the_next(radiusd, tmp_path):
    """The agent is killed before or after it knows whether the new radiusd serves."""
    paths = CellPaths(tmp_path / "cell")
    old = radiusd.running
    assert replace_radiusd(radiusd) == ""
    new = radiusd.running
    assert process.is_alive(old)
    after = Radiusd(paths, radiusd._generations)
    assert after.adopt()
    assert (after.running.pid, process.is_alive(old)) == (new.pid, False)
    assert is_served(after)
    assert not paths.twins.exists()
    # The successor restarts on the ports that it took over.
    os.kill(new.pid, signal.SIGKILL)
    until(lambda: after.tick() or (after.running is not None and after.running.pid != new.pid), "another one")
    assert is_served(after)
    after.stop()
