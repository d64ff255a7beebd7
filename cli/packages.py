"""The Debian packages that Admit stands on: which are needed and why, which are missing, whether the versions serve."""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

# Debian 12 itself has 3.2.1. 3.2.5 is the first that is safe from BlastRADIUS, 3.2.7 the first with a `tls` section for
# each RadSec client; 3.2.9 and 3.2.10 drop every value that a Python module returns (FreeRADIUS issue 5891).
SUPPORTED_FREERADIUS = ("3.2.7", "3.2.8")


@dataclass(frozen=True, slots=True)
class Package:
    name: str
    why: str
    # Built from FreeRADIUS' sources: comes from backports, in one version with its siblings.
    freeradius: bool = False
    # A service that the distribution would start at boot; Admit runs its own.
    unit: str = ""


NEEDED = (
    Package("freeradius", "the RADIUS server", freeradius=True, unit="freeradius.service"),
    Package("freeradius-python3", "its module that calls Admit", freeradius=True),
    Package("freeradius-utils", "radclient, for demo and tests", freeradius=True),
    Package("freeradius-postgresql", "the peer that the benchmark compares with", freeradius=True),
    Package("eapoltest", "an EAP supplicant, for demo and tests"),
    Package("hostapd", "a switch port with 802.1X, for tests", unit="hostapd.service"),
    Package("wpasupplicant", "the device at that port, for tests", unit="wpa_supplicant.service"),
    Package("iproute2", "the cable between them, for tests"),
    Package("openssl", "asks for the status of certificates, for demo and tests"),
    Package("postgresql-15", "the database; a private cluster, never the system's"),
    Package("redis-server", "broker of the worker's jobs", unit="redis-server.service"),
    Package("libjemalloc2", "the memory allocator that radiusd is run with"),
    Package("python3-venv", "makes the Python environment"),
)
# What the tests need beside: `up` does without.
NEEDED_BY_TESTS = (
    *NEEDED,
    Package("slapd", "a directory server, for tests of identity sources", unit="slapd.service"),
    Package("ldap-utils", "fills it"),
    Package("gnutls-bin", "asks for the status of certificates, for tests"),
    Package("softhsm2", "a PKCS#11 token in software, for tests of key stores"),
    Package("strongswan-pki", "a strict client of EST and SCEP, for tests"),
    Package("libstrongswan-extra-plugins", "what it speaks HTTP with"),
    Package("libstrongswan-standard-plugins", "its cryptography"),
    Package("chromium", "a browser that has passkeys, for tests"),
    Package("curl", "a client of EST, for tests"),
    Package("jq", "reads an export of the audit log with nothing of ours, for tests"),
    Package("network-manager", "its parser, for tests", unit="NetworkManager.service"),
    Package("scep", "a SCEP client that knows SHA-1 alone"),
    Package("rsyslog", "a syslog server, for tests of feeds", unit="rsyslog.service"),
    Package("rsyslog-openssl", "its TLS"),
)
# Pulled in by the packages above and, being of the same source, bound to the same version.
FREERADIUS_COMPANIONS = ("freeradius-common", "freeradius-config", "libfreeradius3")


def installed_versions(packages: Sequence[Package] = NEEDED) -> dict[str, str]:
    """Debian versions of those of `packages` that are installed, by name."""
    names = [package.name for package in packages]
    asked = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${binary:Package} ${db:Status-Status} ${Version}\n", *names],
        capture_output=True,
        text=True,
        # Not 0 when one of the names is unknown: that is an answer.
        check=False,
    )
    rows = (line.split() for line in asked.stdout.splitlines())
    # "libjemalloc2:amd64": packages that can be installed for several architectures are shown with theirs.
    return {row[0].partition(":")[0]: row[2] for row in rows if len(row) == 3 and row[1] == "installed"}


def upstream(debian_version: str) -> str:
    """ "2:3.2.7+dfsg-1~bpo12+1" -> "3.2.7" """
    match = re.match(r"(?:\d+:)?(\d+(?:\.\d+)*)", debian_version)
    return match[1] if match else debian_version


def freeradius_objection(debian_version: str) -> str:
    """Why this FreeRADIUS does not serve, in one sentence; empty when it does."""
    version = upstream(debian_version)
    if version in SUPPORTED_FREERADIUS:
        return ""
    numbers = tuple(int(part) for part in version.split("."))
    wanted = " or ".join(SUPPORTED_FREERADIUS)
    if numbers < (3, 2, 5):
        return f"FreeRADIUS {version} is open to the BlastRADIUS attack (CVE-2024-3596); Admit needs {wanted}."
    if numbers in ((3, 2, 9), (3, 2, 10)):
        return f"FreeRADIUS {version} drops the values that a Python module returns; Admit needs {wanted}."
    return f"FreeRADIUS {version} is not one that Admit was tested with; it needs {wanted}."


def replaceable(debian_version: str) -> bool:
    """Whether installing a supported version is an upgrade, which apt may do; a downgrade is left to a person."""
    return tuple(int(part) for part in upstream(debian_version).split(".")) < (3, 2, 7)


def missing(versions: dict[str, str], packages: Sequence[Package] = NEEDED) -> list[Package]:
    """Packages to install: absent, or of a FreeRADIUS that is too old."""
    return [
        package
        for package in packages
        if package.name not in versions or (package.freeradius and replaceable(versions[package.name]))
    ]
