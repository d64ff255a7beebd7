"""Starts and stops all processes of this checkout, even if only some of them run."""

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cli import cluster, envfile, environment, file_ownership, health, portal, procfs, supervisor
from cli.errors import Refused
from cli.layout import CHECKOUT, Layout
from cli.output import Progress
from cli.passwords import Passwords
from cli.ports import require_free_ports
from cli.programs import OTHERS, STORES, list_programs, write_redis_configuration
from cli.supervisor import Supervisor
from nac.kit.private_files import write_private
from nac.kit.settings import Settings, SettingsError, load_settings

_PATIENCE_SECONDS = 60
_CRASHING_SECONDS = 15
# If only these settings change, `up` restarts no process, unless the change enables trials.
_OF_UP = ("ADMIT_DEMO",)
_REQUIRED = ("DATABASE_URL", "DATABASE_OWNER_URL", "DATABASE_CELL_URL", "DATABASE_WORKER_URL", "REDIS_URL")


@contextmanager
def exclusive_lock(layout: Layout) -> Iterator[None]:
    """Allow only one `up` or `down` at a time."""
    # Only the owner can open the file, because any process that opens the file can lock it.
    with open(os.open(layout.var / "lock", os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        os.fchmod(file.fileno(), 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise Refused(
                "Another './admit up' or './admit down' is running.", remedy="Wait until that command ends."
            ) from exc
        yield


@dataclass(frozen=True, slots=True)
class StartResult:
    settings: Settings
    # Whether `up` started a process; false if all processes were running already.
    anew: bool


def start(layout: Layout, choices: dict[str, str], progress: Progress) -> StartResult:
    """Start every process and wait until all processes are healthy.

    Processes that run with the current settings are not restarted.
    """
    passwords = Passwords.load_or_create(layout.passwords)
    values = environment.compose(layout, choices, passwords)
    settings = load_settings(values, required=_REQUIRED)
    configuration = supervisor.render_configuration(layout, list_programs(layout, passwords))
    stamp = _stamp(configuration, values, settings)
    running = Supervisor(layout).is_up()
    if running and _stored_stamp(layout) != stamp:
        # A start that cannot succeed must not stop running processes.
        require_free_ports(settings, running=_settings_before(layout, passwords) or settings)
        with progress.step("restart", "settings or code changed since the last start"):
            stop(layout)
        running = False
    if not running:
        _start_supervisor(layout, settings, passwords, configuration, values, progress)
        write_private(_stamp_file(layout), stamp)
    elif envfile.read(layout.env_file) != values:
        # No process reads the changed setting.
        envfile.write(layout.env_file, values)
    file_ownership.ensure_operator_key(layout)
    environment.ensure_enrolment_certificate(layout, settings)
    _start_database(layout, settings, passwords, progress)
    _start_others(layout, settings, progress)
    return StartResult(settings, anew=not running)


def _settings_before(layout: Layout, passwords: Passwords) -> Settings | None:
    """Return the settings of the last start, from admit.env; None if the file is invalid."""
    try:
        return load_settings(environment.compose(layout, {}, passwords))
    except SettingsError:
        return None


def _start_supervisor(
    layout: Layout,
    settings: Settings,
    passwords: Passwords,
    configuration: str,
    values: dict[str, str],
    progress: Progress,
) -> None:
    strays = find_strays(layout)
    if strays:
        with progress.step("clean-up", f"stopped {len(strays)} processes of an earlier supervisor"):
            procfs.end_processes(strays)
    require_free_ports(settings)
    file_ownership.set_up_folders(layout, settings)
    environment.ensure_master_key(layout)
    envfile.write(layout.env_file, values)
    if not cluster.exists(layout):
        with progress.step("postgres", f"new cluster in {_short(layout.postgres)}"):
            cluster.create(layout)
    cluster.configure(layout)
    write_redis_configuration(layout, passwords)
    file = layout.var / "supervisor" / "supervisord.conf"
    write_private(file, configuration)
    supervisor.start(layout, file, environment.without_credentials(values))


def _start_database(layout: Layout, settings: Settings, passwords: Passwords, progress: Progress) -> None:
    for name in STORES:
        _bring_up(name, layout, settings, progress)
    with progress.step("schema", "roles, database and migrations are current"):
        # Imported here because it loads the database libraries, which `down` does not need.
        from cli import schema

        schema.prepare_database(layout, passwords)
        schema.migrate(layout, passwords)


def _start_others(layout: Layout, settings: Settings, progress: Progress) -> None:
    for name in OTHERS:
        Supervisor(layout).ensure_started(name)
    for name in OTHERS:
        _bring_up(name, layout, settings, progress)


def _bring_up(name: str, layout: Layout, settings: Settings, progress: Progress) -> None:
    """Start the process `name` if the process is not running, and wait until the process is healthy."""
    running = Supervisor(layout)
    running.ensure_started(name)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        state = running.states().get(name)
        if state is None:
            raise Refused("The process supervisor stopped.", remedy=f"See {layout.log}/supervisord.log.")
        wrong = (
            health.find_problem(name, layout, settings, started_at=state.started_at) if state.pid else "does not run"
        )
        if not wrong:
            break
        # If the process ends again and again, its log has the cause, and waiting does not help.
        hopeless = state.state == "BACKOFF" and time.monotonic() > deadline - _PATIENCE_SECONDS + _CRASHING_SECONDS
        if hopeless or time.monotonic() > deadline:
            raise Refused(
                f"{name} {wrong} ({state.state}: {state.description}). The log of {name} ends with:"
                f"\n{_last_lines(layout.log / f'{name}.log')}",
                remedy=f"\nMore: ./admit logs {name}",
            )
        time.sleep(0.1)
    progress.done(name, f"healthy, pid {state.pid}")


def _last_lines(log: Path, count: int = 15) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:]
    except OSError:
        lines = ["(no log)"]
    return "\n".join(f"    {line}" for line in lines)


def stop(layout: Layout) -> int:
    """Stop every process of this checkout. Returns the number of processes that had no supervisor."""
    running = Supervisor(layout)
    if running.is_up():
        running.shut_down(first=OTHERS)
    strays = find_strays(layout)
    procfs.end_processes(strays)
    for path in (layout.redis_socket, layout.supervisor_socket, layout.run / "supervisord.pid"):
        path.unlink(missing_ok=True)
    return len(strays)


def find_strays(layout: Layout) -> list[procfs.Process]:
    return procfs.find_strays(layout.var, (layout.var, layout.postgres))


def _stamp_file(layout: Layout) -> Path:
    return layout.var / "supervisor" / "started-with"


def _stored_stamp(layout: Layout) -> str:
    try:
        return _stamp_file(layout).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def _stamp(configuration: str, values: dict[str, str], settings: Settings) -> str:
    """Return a hash of the settings, the commands and the code of the processes."""
    read = sorted((name, value) for name, value in values.items() if name not in _OF_UP)
    digest = hashlib.sha256(repr((configuration, read, settings.trials.offered, portal.read_digest())).encode())
    for package in ("nac", "pki", "radius", "api", "worker", "migrations"):
        for file in sorted((CHECKOUT / package).rglob("*")):
            if file.suffix != ".pyc" and file.is_file():
                status = file.stat()
                digest.update(f"{file} {status.st_mtime_ns} {status.st_size}\n".encode())
    return digest.hexdigest()


def _short(path: Path) -> str:
    return str(path.relative_to(CHECKOUT)) if path.is_relative_to(CHECKOUT) else str(path)
