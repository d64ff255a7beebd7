"""Hands over the ports of a running radiusd to a new radiusd (docs/adr/0016).

After the takeover, the old radiusd still answers packets that the old radiusd has already read.
"""

import json
import logging
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from radius.agent.paths import CellPaths
from radius.agent.radiusd import process
from radius.agent.radiusd.generation import Generation, ProbeTarget, free_ports
from radius.agent.radiusd.probe import run_port_step
from radius.agent.radiusd.process import RadiusdError, RunningRadiusd
from radius.agent.small_files import write_small_file
from radius.module.settings import ModuleSettings

log = logging.getLogger(__name__)

# Seconds for the old radiusd to send delayed rejects and results of its verifier. Records of the new radiusd are
# shipped only afterwards, because the agent reads journal segments in order.
LEAVING_SECONDS = 3.0
_STEP_SECONDS = 2.0
_PORT = re.compile(r"(?<=\bport = )\d+")

ServingCheck = Callable[[RunningRadiusd, Generation], bool]


class PortsNotShared(Exception):
    """The running radiusd does not release its ports, because this radiusd has an older version or does not respond."""


def take_over_ports(
    paths: CellPaths, old: RunningRadiusd, of_old: Generation, new: Generation, answers: ServingCheck
) -> RunningRadiusd:
    """Start a radiusd with the configuration `new`, which takes over the ports of `old`. `old` keeps running, but
    receives no new packets.

    Raises PortsNotShared or RadiusdError. In that case, `old` continues to serve.
    """
    twin = _copy_on_other_ports(paths, new)
    running = process.start(twin.directory, paths.radiusd_log)
    try:
        _record_twins(paths, old, running)
        if not answers(running, twin):
            raise RadiusdError(f"radiusd does not respond; see {paths.radiusd_log}")
        _hand_over_ports(of_old.facts.status, twin.facts.status)
        if not answers(running, new):
            raise RadiusdError("radiusd does not respond on the ports that it has taken over")
        running = replace(running, config_directory=new.directory)
        process.save_running(paths.running, running)
    except Exception:
        # The new radiusd's sockets close with it, so the old radiusd receives packets again.
        process.stop(running)
        run_port_step(of_old.facts.status.port, of_old.facts.status.secret, "stay", seconds=_STEP_SECONDS)
        raise
    return running


def _hand_over_ports(old: ProbeTarget, new: ProbeTarget) -> None:
    def step(whom: ProbeTarget, word: str) -> bool:
        return run_port_step(whom.port, whom.secret, word, seconds=_STEP_SECONDS)

    # Packets wait in the kernel from `bind` to `take`, for a few milliseconds.
    for whom, word in ((old, "share"), (new, "bind"), (old, "leave"), (new, "take")):
        if not step(whom, word):
            raise PortsNotShared(word)


def stop_leftover_twins(paths: CellPaths, running: RunningRadiusd | None) -> None:
    """Stop all radiusds except `running`.

    If an agent was killed during a replacement, a second radiusd may still run.
    """
    with suppress(OSError, ValueError, KeyError, TypeError):
        for entry in json.loads(paths.twins.read_text()):
            twin = RunningRadiusd(int(entry["pid"]), int(entry["start_ticks"]), Path())
            if running is None or twin.pid != running.pid:
                process.stop(twin)
    paths.twins.unlink(missing_ok=True)


def _record_twins(paths: CellPaths, *both: RunningRadiusd) -> None:
    entries = [{"pid": each.pid, "start_ticks": each.start_ticks} for each in both]
    write_small_file(paths.twins, json.dumps(entries).encode())


def _copy_on_other_ports(paths: CellPaths, generation: Generation) -> Generation:
    facts = generation.facts
    ports = (facts.status.port, *facts.ports)
    others = (*free_ports("127.0.0.1", 1), *free_ports(facts.listen_address, len(facts.ports)))
    other = dict(zip(ports, others, strict=True))
    directory = paths.twin
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(generation.directory, directory, symlinks=True)
    for name in ("radiusd.conf", "slots/servers"):
        _rewrite_ports(directory / name, other)
    settings = directory / "module.json"
    original = msgspec.json.decode(settings.read_bytes(), type=ModuleSettings)
    settings.write_bytes(msgspec.json.encode(msgspec.structs.replace(original, ports=ports, started_on=others)))
    moved = msgspec.structs.replace(
        facts,
        status=ProbeTarget(other[facts.status.port], facts.status.secret),
        endpoints=tuple(ProbeTarget(other[each.port], each.secret) for each in facts.endpoints),
        ports=others[1:],
    )
    return Generation(directory, moved)


def _rewrite_ports(path: Path, other: Mapping[int, int]) -> None:
    text = _PORT.sub(lambda match: str(other.get(int(match[0]), match[0])), path.read_text())
    path.write_text(text)
