"""Installs missing Debian packages without starting services or creating a system-wide database cluster."""

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cli.account import is_root
from cli.apt_sources import derive_backports, read_sources
from cli.errors import Refused
from cli.output import Progress
from cli.packages import (
    FREERADIUS_COMPANIONS,
    REQUIRED_PACKAGES,
    SUPPORTED_FREERADIUS,
    Package,
    freeradius_objection,
    installed_versions,
    list_missing,
    upstream_version,
)

_ETC_APT = Path("/etc/apt")
_BACKPORTS_FILE = _ETC_APT / "sources.list.d" / "admit-backports.sources"
# Debian runs this script before a package starts its service. Exit status 101 prevents the start (Debian policy
# 9.3.3).
_POLICY = Path("/usr/sbin/policy-rc.d")
_POLICY_TEXT = "#!/bin/sh\n# Made by admit for the time of one installation.\nexit 101\n"
# The maintainer script of postgresql-15 reads this file before it creates the cluster "main" (pg_createcluster(1)).
_NO_CLUSTER = Path("/etc/postgresql-common/createcluster.d/admit.conf")

_POSTGRESQL = tuple(package for package in REQUIRED_PACKAGES if package.name == "postgresql-15")

# Another program, such as unattended-upgrades, may hold apt's lock for a while.
_APT_OPTIONS = ("--option", "DPkg::Lock::Timeout=300")


def ensure_packages(
    progress: Progress, *, install: bool, log: Path, packages: Sequence[Package] = REQUIRED_PACKAGES
) -> None:
    """Install the missing packages.

    If `install` is False or root is unavailable, raise Refused with the names of the packages.
    """
    versions = installed_versions(packages)
    missing = list_missing(versions, packages)
    if missing:
        if not install:
            raise Refused(
                f"These packages are missing: {_names(missing)}.", remedy="Run the command without --no-install."
            )
        if not is_root() and not shutil.which("sudo"):
            raise Refused(f"These packages are missing: {_names(missing)}.", remedy="Run the command as root.")
        _announce(progress, missing)
        _install(progress, missing, _freeradius_names(packages), versions.get("freeradius", ""), log)
        versions = installed_versions(packages)
        still = list_missing(versions, packages)
        if still:
            raise Refused(f"apt did not install {_names(still)}.", remedy=f"See the log {log}.")
    objection = freeradius_objection(versions["freeradius"])
    if objection:
        raise Refused(objection, remedy="Install that version, then run the command again.")
    progress.done("packages", _summary(versions))


def _names(packages: list[Package]) -> str:
    return ", ".join(package.name for package in packages)


def _summary(versions: dict[str, str]) -> str:
    parts = {"FreeRADIUS": "freeradius", "PostgreSQL": "postgresql-15", "Redis": "redis-server"}
    return ", ".join(f"{label} {upstream_version(versions[name])}" for label, name in parts.items())


def _freeradius_names(packages: Sequence[Package]) -> list[str]:
    """Return the FreeRADIUS packages of `packages`. All FreeRADIUS packages must have the same version."""
    return [*(package.name for package in packages if package.freeradius), *FREERADIUS_COMPANIONS]


def _announce(progress: Progress, missing: list[Package]) -> None:
    progress.note("Installing these missing Debian packages with apt, without starting their services:")
    for package in missing:
        progress.note(f"  {package.name:<26} {package.why}")


def _install(
    progress: Progress, missing: list[Package], freeradius_names: list[str], installed_freeradius: str, log: Path
) -> None:
    with progress.step("apt", "package lists updated"):
        _apt(["update"], log)
    names = [package.name for package in missing if not package.freeradius]
    if len(names) < len(missing):
        version = _choose_freeradius(installed_freeradius) or _freeradius_from_backports(progress, log)
        names += [f"{name}={version}" for name in freeradius_names]
    with progress.step("apt", f"{len(missing)} packages installed"), _no_services(), _no_system_cluster():
        _apt(["install", "--yes", "--no-install-recommends", *names], log)
    units = [package.unit for package in missing if package.unit]
    if units and shutil.which("systemctl"):
        # Disable the services. Otherwise the services would start at the next boot.
        _as_root(["systemctl", "disable", *units], log)


def _choose_freeradius(installed: str = "") -> str:
    """Return the installed version if available and supported, otherwise the newest supported version."""
    # Lines such as "freeradius | 3.2.7+dfsg-1~bpo12+1 | source", newest first.
    listed = subprocess.run(["apt-cache", "madison", "freeradius"], capture_output=True, text=True, check=True).stdout
    versions = [line.split("|")[1].strip() for line in listed.splitlines() if line.count("|") == 2]
    supported = [version for version in versions if upstream_version(version) in SUPPORTED_FREERADIUS]
    return installed if installed in supported else next(iter(supported), "")


def _freeradius_from_backports(progress: Progress, log: Path) -> str:
    entry = derive_backports(read_sources(_ETC_APT), _codename())
    if entry:
        progress.note(f"Adding {_BACKPORTS_FILE}, derived from this machine's apt sources, for FreeRADIUS:")
        for line in entry.splitlines():
            progress.note(f"  {line}")
        _write_as_root(_BACKPORTS_FILE, entry, "0644", log)
        with progress.step("apt", "package lists updated, backports included"):
            _apt(["update"], log)
    version = _choose_freeradius()
    if not version:
        raise Refused(
            f"No apt source of this machine has FreeRADIUS {' or '.join(SUPPORTED_FREERADIUS)}.",
            remedy="Add the Debian 12 backports to /etc/apt, then run the command again.",
        )
    return version


def _codename() -> str:
    release = Path("/etc/os-release").read_text(encoding="utf-8")
    values = dict(line.split("=", 1) for line in release.splitlines() if "=" in line)
    name = values.get("VERSION_CODENAME", "").strip('"')
    if name != "bookworm":
        raise Refused(f"This machine runs {values.get('PRETTY_NAME', 'an unknown system')}; Admit needs Debian 12.")
    return name


@contextmanager
def _no_services() -> Iterator[None]:
    """Prevent packages from starting services during the block. Keeps an existing policy-rc.d of the machine."""
    if _POLICY.exists() and _POLICY.read_text(encoding="utf-8", errors="replace") != _POLICY_TEXT:
        yield
        return
    _write_as_root(_POLICY, _POLICY_TEXT, "0755")
    try:
        yield
    finally:
        _as_root(["rm", "--force", str(_POLICY)])


@contextmanager
def _no_system_cluster() -> Iterator[None]:
    """Prevent the package postgresql-15 from creating and starting a cluster."""
    if "postgresql-15" in installed_versions(_POSTGRESQL):
        yield
        return
    _write_as_root(_NO_CLUSTER, "create_main_cluster = false\n", "0644")
    try:
        yield
    finally:
        _as_root(["rm", "--force", str(_NO_CLUSTER)])


def _apt(arguments: list[str], log: Path) -> None:
    _as_root(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet=2", *_APT_OPTIONS, *arguments], log)


def _write_as_root(path: Path, text: str, mode: str, log: Path | None = None) -> None:
    _as_root(["install", "-D", "--mode", mode, "/dev/stdin", str(path)], log, text=text)


def _as_root(command: list[str], log: Path | None = None, *, text: str = "") -> None:
    """Run a command as root, with sudo if needed. Output goes to `log`. An error contains the end of the output."""
    whole = command if is_root() else ["sudo", *command]
    done = subprocess.run(whole, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if log:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as file:
            file.write(f"$ {' '.join(whole)}\n{done.stdout}")
    if done.returncode:
        output = "\n  ".join(done.stdout.strip().splitlines()[-5:])
        raise Refused(f"'{' '.join(whole[:6])}' failed:\n  {output}")
