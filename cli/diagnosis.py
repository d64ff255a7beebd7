"""Checks of `./admit doctor`."""

import ctypes
import os
import shutil
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Literal

from cli import environment, health
from cli.account import is_root
from cli.errors import Refused
from cli.layout import CHECKOUT, Layout, find_layout, var_dir
from cli.packages import freeradius_objection, installed_versions, list_missing, upstream_version
from cli.ports import first_taken
from cli.supervisor import Supervisor
from nac.kit.clock import epoch_seconds, utc_now
from nac.kit.settings import Settings, SettingsError, load_settings

_DISK_WARN_BYTES = 5 << 30
_DISK_FAIL_BYTES = 1 << 30
# Kernel state of clock synchronisation (adjtimex(2)).
_STA_UNSYNC = 0x0040
_TIMEX_BYTES = 208
_TIMEX_STATUS_OFFSET = 40


@dataclass(frozen=True, slots=True)
class Diagnosis:
    verdict: Literal["ok", "warn", "fail"]
    subject: str
    what: str
    remedy: str = ""


def run_diagnosis() -> list[Diagnosis]:
    layout = find_layout()
    diagnoses = [*_packages(), _disk(var_dir()), *_shared_memory(), *_clock(), *_code()]
    try:
        settings = environment.load_into_process() if layout else load_settings({"ADMIT_VAR_DIR": str(var_dir())})
    except (SettingsError, Refused) as exc:
        return [*diagnoses, Diagnosis("fail", "settings", str(exc), f"Correct {var_dir() / 'admit.env'}.")]
    if layout is None:
        return [
            *diagnoses,
            *_ports(settings),
            Diagnosis("ok", "processes", "never started here", "Start the processes: ./admit up"),
        ]
    running = bool(Supervisor(layout).states())
    return [
        *diagnoses,
        *([] if running else _ports(settings)),
        *_permissions(layout),
        *_enrolment_certificate(settings),
        *(
            _processes(layout, settings)
            if running
            else [Diagnosis("ok", "processes", "none", "Start the processes: ./admit up")]
        ),
    ]


def _packages() -> Iterator[Diagnosis]:
    versions = installed_versions()
    for package in list_missing(versions):
        yield Diagnosis(
            "fail", "packages", f"{package.name} is missing: {package.why}", "./admit up installs the package."
        )
    for name in ("freeradius", "postgresql-15", "redis-server", "eapoltest"):
        if name in versions:
            objection = freeradius_objection(versions[name]) if name == "freeradius" else ""
            remedy = "Install a supported version." if objection else ""
            what = objection or f"{name} {upstream_version(versions[name])}"
            yield Diagnosis("fail" if objection else "ok", "packages", what, remedy)


def _disk(var: Path) -> Diagnosis:
    place = next(folder for folder in (var, *var.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    what = f"{free / (1 << 30):.1f} GB free for {var}"
    if free < _DISK_FAIL_BYTES:
        return Diagnosis("fail", "disk", what, "Free some space. Accounting fails if Admit cannot write the journal.")
    return Diagnosis("warn" if free < _DISK_WARN_BYTES else "ok", "disk", what)


def _shared_memory() -> Iterator[Diagnosis]:
    """Check the folder /dev/shm, in which the worker stores semaphores and the cells store TLS sessions."""
    folder = Path("/dev/shm")  # noqa: S108 -- not ours to make
    if not folder.is_dir() or folder.stat().st_mode & 0o1777 != 0o1777:
        yield Diagnosis(
            "fail", "memory", f"{folder} is not a folder that every user can write to", f"mount -t tmpfs tmpfs {folder}"
        )


def _clock() -> Iterator[Diagnosis]:
    newest = max(file.stat().st_mtime for file in (CHECKOUT / "nac").glob("*.py"))
    if epoch_seconds() < newest - 3600:
        yield Diagnosis(
            "fail",
            "clock",
            "is earlier than this version of Admit",
            "Set the clock, because the validity of certificates depends on the clock.",
        )
    elif _clock_is_disciplined():
        yield Diagnosis("ok", "clock", "synchronised by a time service")
    else:
        yield Diagnosis(
            "warn", "clock", "not synchronised by a time service", "Install a service: 'apt-get install chrony'."
        )


def _clock_is_disciplined() -> bool:
    timex = ctypes.create_string_buffer(_TIMEX_BYTES)
    if ctypes.CDLL(None, use_errno=True).adjtimex(timex) < 0:
        return False
    (status,) = struct.unpack_from("i", timex, _TIMEX_STATUS_OFFSET)
    return not status & _STA_UNSYNC


def _code() -> Iterator[Diagnosis]:
    lock, made_from = CHECKOUT / "requirements.lock", CHECKOUT / ".venv" / "requirements.lock"
    if made_from.exists() and made_from.read_bytes() == lock.read_bytes():
        yield Diagnosis("ok", "environment", ".venv matches requirements.lock")
    else:
        yield Diagnosis(
            "warn",
            "environment",
            ".venv does not match requirements.lock",
            "Delete .venv. The next ./admit creates .venv again.",
        )


def _ports(settings: Settings) -> Iterator[Diagnosis]:
    groups = (
        ("UDP", settings.cell_ports, socket.SOCK_DGRAM, "--first-port"),
        ("TCP", settings.http_ports, socket.SOCK_STREAM, "--api-port"),
    )
    for protocol, ports, kind, option in groups:
        try:
            taken = first_taken(settings.listen_address, ports, kind)
        except Refused as exc:
            yield Diagnosis("fail", "ports", str(exc), "Use another address: ./admit up --listen ADDRESS.")
            continue
        if taken:
            yield Diagnosis(
                "fail", "ports", f"{protocol} {taken} is taken", f"Use other ports: ./admit up {option} PORT."
            )
        else:
            yield Diagnosis(
                "ok", "ports", f"{protocol} {ports[0]} to {ports[-1]} of {settings.listen_address} are free"
            )


def _permissions(layout: Layout) -> Iterator[Diagnosis]:
    # If each process has its own system user, a group can read the master key.
    most = {layout.master_key: 0o640 if layout.is_separated else 0o600, layout.env_file: 0o600, layout.passwords: 0o600}
    for path, mode in most.items():
        if path.exists() and path.stat().st_mode & 0o777 & ~mode:
            yield Diagnosis("fail", "permissions", f"other users can read {path}", f"chmod {mode:o} {path}")
    for folder in (layout.postgres_run, layout.redis_run):
        if folder.exists() and folder.stat().st_mode & 0o007:
            yield Diagnosis("fail", "permissions", f"other users can enter {folder}", f"chmod o= {folder}")
    if not is_root() and layout.var.stat().st_uid != os.getuid():
        yield Diagnosis(
            "warn", "permissions", f"{layout.var} belongs to another account", "Use the account that ran 'up'."
        )
    elif layout.is_separated:
        yield Diagnosis("ok", "accounts", layout.describe())
    else:
        remedy = "Run ./admit up as root, in a checkout that other users can enter, such as /srv."
        yield Diagnosis(
            "warn", "accounts", f"{layout.describe()}: each process can read the data of all other processes", remedy
        )


def _enrolment_certificate(settings: Settings) -> Iterator[Diagnosis]:
    # Imported here because it loads the cryptographic libraries.
    from api.enrolment.server_certificate import RENEWAL_LEAD, read_expiry

    file = settings.enrolment_certificate_file
    try:
        end = read_expiry(file)
    except (OSError, ValueError) as exc:
        remedy = "./admit up creates the certificate, unless ADMIT_ENROLMENT_CERTIFICATE_FILE is set."
        yield Diagnosis("fail", "certificate", f"cannot read the enrolment port's certificate: {exc}", remedy)
        return
    what = f"the enrolment port's certificate ends on {end:%Y-%m-%d}"
    remedy = f"Put a newer certificate into {file}. If Admit should have renewed it, see ./admit logs enrolment."
    if end <= utc_now():
        yield Diagnosis("fail", "certificate", what, remedy)
    elif end <= utc_now() + RENEWAL_LEAD - timedelta(days=1):
        yield Diagnosis("warn", "certificate", what, remedy)
    else:
        yield Diagnosis("ok", "certificate", what)


def _processes(layout: Layout, settings: Settings) -> Iterator[Diagnosis]:
    for name, state in Supervisor(layout).states().items():
        wrong = "is not running: " + state.description
        if state.pid:
            wrong = health.find_problem(name, layout, settings, started_at=state.started_at)
        yield Diagnosis("fail", name, wrong, f"See ./admit logs {name}.") if wrong else Diagnosis("ok", name, "well")
