"""The cell's radiusd: started, taken over from an earlier agent, restarted, replaced and rolled back."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nac.kit.listen_addresses import bound_addresses, local_address
from radius.agent.paths import CellPaths
from radius.agent.radiusd import process
from radius.agent.radiusd.configuration import RenderError
from radius.agent.radiusd.configuration_source import SlotRow
from radius.agent.radiusd.generation import Generation, Generations, require_free_ports
from radius.agent.radiusd.port_takeover import (
    LEAVING_SECONDS,
    PortsNotShared,
    stop_leftover_twins,
    take_over_ports,
)
from radius.agent.radiusd.probe import is_deciding, is_serving
from radius.agent.radiusd.process import RadiusdError, RunningRadiusd

log = logging.getLogger(__name__)

START_SECONDS = 20.0
# Seconds until SIGKILL: a hanging radiusd does not react to SIGTERM.
HUNG_STOP_SECONDS = 1.0
# Longest wait for a moment without packets before radiusd is replaced.
QUIET_WAIT_SECONDS = 10.0
QUIET_SECONDS = 0.3
_MAX_BACKOFF_SECONDS = 10.0
_POLL_SECONDS = 0.1


class Radiusd:
    """Controls radiusd. Only one thread may use this object, except `lock`.

    `lock` prevents `tick` from running during a replacement.
    """

    def __init__(self, paths: CellPaths, generations: Generations) -> None:
        self._paths = paths
        self._generations = generations
        self.lock = threading.Lock()
        self.running: RunningRadiusd | None = None
        self.generation: Generation | None = None
        # Number of unexpected ends of radiusd, and of failed starts after such an end.
        self.restarts = 0
        self.failed_starts = 0
        self.renewals = 0
        self._backoff_seconds = 0.0
        self._not_before = 0.0
        self._stopped = False
        # A replaced radiusd, and the time until which it may answer packets that it has read.
        self._leaving: RunningRadiusd | None = None
        self._leaves_at = 0.0

    def adopt(self) -> bool:
        """Take over the radiusd that an earlier agent left running. Returns whether a radiusd was running."""
        running = process.load_running(self._paths.running)
        stop_leftover_twins(self._paths, running)
        generation = self._generations.read(running.config_directory) if running else None
        if running is None:
            return False
        if generation is None:
            process.stop(running)
            return False
        self.running, self.generation = running, generation
        log.info("took over radiusd %d", running.pid)
        return True

    def start(self, generation: Generation) -> None:
        """Start radiusd with `generation` and wait until it responds.

        After RadiusdError or PortTaken, no radiusd is running.
        """
        require_free_ports(generation.facts)
        self._generations.complete(generation)
        running = process.start(generation.directory, self._paths.radiusd_log)
        try:
            process.save_running(self._paths.running, running)
        except OSError:
            # Without the stored process id, no later agent could find this radiusd.
            process.stop(running)
            raise
        if not self._answers(running, generation):
            process.stop(running)
            raise RadiusdError(f"radiusd does not respond; see {self._paths.radiusd_log}")
        self.running, self.generation = running, generation
        log.info("radiusd %d serves %d slots", running.pid, len(generation.facts.endpoints))

    def stop(self) -> None:
        """Stop radiusd permanently. If a replacement waits for a quiet moment, the agent skips this replacement."""
        with self.lock:
            self._stopped = True
            self._stop_leaving()
            if self.running is not None:
                process.stop(self.running)
            self.running = None

    def tick(self) -> None:
        """Restart radiusd if it has ended, with growing pauses if it ends repeatedly."""
        with self.lock:
            if time.monotonic() >= self._leaves_at:
                self._stop_leaving()
            if self.generation is None or time.monotonic() < self._not_before:
                return
            if self.running is not None and process.is_alive(self.running):
                return
            log.error("radiusd has ended; restarting it")
            self._stop_leaving()
            self.restarts += self.running is not None
            self.running = None
            self._backoff_seconds = min(_MAX_BACKOFF_SECONDS, self._backoff_seconds * 2 + 0.1)
            self._not_before = time.monotonic() + self._backoff_seconds
            try:
                self.start(self.generation)
            except Exception:  # house-rule: `tick` retries after any failure to start radiusd
                self.failed_starts += 1
                log.exception("radiusd did not start; next try in %.1f s", self._backoff_seconds)
            else:
                self._backoff_seconds = 0.0

    def stop_hung(self, hung: RunningRadiusd) -> None:
        """Kill a radiusd that hangs; the next `tick` starts a new radiusd.

        Does nothing if `hung` is not the current radiusd.
        """
        with self.lock:
            if self.running is hung:
                process.stop(hung, HUNG_STOP_SECONDS)

    def exchange(
        self,
        slots: Sequence[SlotRow],
        serials: Mapping[int, str],
        *,
        status_port: int,
        is_quiet: Callable[[float], bool],
    ) -> str:
        """Replace radiusd by a radiusd with a new configuration.

        Returns "", or the reason why the old configuration stays in use.

        The agent renders and checks the configuration, and tests it with a radiusd on other ports. Then the new radiusd
        takes over the ports, if possible in a quiet moment. No packet is dropped, but EAP conversations in progress
        start again.
        """
        try:
            self._try_shadow(slots, serials)
            new = self._generations.create_checked(slots, serials, status_port=status_port)
        except (RadiusdError, RenderError, OSError) as exc:
            return str(exc)
        self._wait_for_leaving()
        _wait_until_quiet(is_quiet)
        with self.lock:
            if self._stopped:
                return "the agent is stopping"
            old = self.generation
            try:
                self._replace_running(new)
            except Exception as exc:  # house-rule: after any failure, the old radiusd must serve again
                log.exception("the new configuration fails; rolling back")
                self._generations.discard(new)
                if self.running is None:
                    self._roll_back(old)
                return f"rolled back: {exc}"
            self._generations.remove_old(new.directory)
        return ""

    def _replace_running(self, new: Generation) -> None:
        """Replace the running radiusd, if any. After a failure, the old radiusd still runs, or no radiusd runs."""
        self._stop_leaving()
        old, of_old = self.running, self.generation
        if old is not None and of_old is not None and process.is_alive(old):
            try:
                self._take_over(old, of_old, new)
            except PortsNotShared as exc:
                log.warning("radiusd %d does not release its ports (%s); stopping it first", old.pid, exc)
            else:
                return
        if old is not None:
            process.stop(old)
            self.running = None
        self.start(new)

    def _take_over(self, old: RunningRadiusd, of_old: Generation, new: Generation) -> None:
        self._generations.complete(new)
        self.running = take_over_ports(self._paths, old, of_old, new, self._answers)
        self.generation = new
        self._leaving, self._leaves_at = old, time.monotonic() + LEAVING_SECONDS
        log.info(
            "radiusd %d serves %d slots and replaces radiusd %d", self.running.pid, len(new.facts.endpoints), old.pid
        )

    def _wait_for_leaving(self) -> None:
        """Wait until the previously replaced radiusd has answered its packets.

        The next replacement may begin only after this wait.
        """
        while self._leaving is not None and not self._stopped and time.monotonic() < self._leaves_at:
            time.sleep(_POLL_SECONDS)

    def _stop_leaving(self) -> None:
        if self._leaving is None:
            return
        process.stop(self._leaving)
        self._leaving = None
        stop_leftover_twins(self._paths, self.running)

    def renew(self, *, is_quiet: Callable[[float], bool]) -> str:
        """Replace the process of radiusd by a new process with the same configuration.

        Returns "", or the reason why the old process stays.

        The current configuration has already worked, so neither a test nor the database is necessary.
        """
        old = self.running
        self._wait_for_leaving()
        _wait_until_quiet(is_quiet)
        with self.lock:
            if self._stopped:
                return "the agent is stopping"
            if old is None or self.generation is None or self.running is not old:
                return "radiusd has ended meanwhile"
            self.renewals += 1
            try:
                self._replace_running(self.generation)
            except Exception as exc:  # house-rule: `tick` retries after any failure
                log.exception("radiusd did not restart")
                return str(exc)
        return ""

    def _roll_back(self, old: Generation | None) -> None:
        if old is None:
            return
        try:
            self.start(old)
        except Exception:  # house-rule: the old configuration may fail, too; `tick` retries
            self.running = None
            log.exception("the old configuration does not start either")

    def _try_shadow(self, slots: Sequence[SlotRow], serials: Mapping[int, str]) -> None:
        shadow = self._generations.create_shadow(slots, serials)
        process.check_configuration(shadow.directory)
        running = process.start(shadow.directory, self._paths.shadow / "radiusd.log")
        try:
            if not self._answers(running, shadow):
                raise RadiusdError(
                    f"the new configuration does not respond: {_last_line(self._paths.shadow / 'radiusd.log')}"
                )
        finally:
            process.stop(running)

    @staticmethod
    def _answers(running: RunningRadiusd, generation: Generation) -> bool:
        """Whether radiusd answers Status-Server, and decides about a request to the last slot (port pair), which is
        usually free.
        """
        facts = generation.facts
        last = facts.endpoints[-1]
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if not process.is_alive(running):
                return False
            if is_serving("127.0.0.1", facts.status.port, facts.status.secret, seconds=0.5):
                return all(
                    is_deciding(
                        local_address(address),
                        last.port,
                        last.secret,
                        seconds=deadline - time.monotonic(),
                        alive=lambda: process.is_alive(running),
                    )
                    for address in bound_addresses(facts.listen_address)
                )
        return False


def _wait_until_quiet(is_quiet: Callable[[float], bool]) -> None:
    deadline = time.monotonic() + QUIET_WAIT_SECONDS
    while time.monotonic() < deadline and not is_quiet(QUIET_SECONDS):
        pass


def _last_line(path: Path) -> str:
    lines = [line for line in path.read_text(errors="replace").splitlines() if "Error" in line]
    return lines[-1] if lines else "no error in its log"
