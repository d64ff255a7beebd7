"""Debian packages that Admit needs, with reasons and supported versions."""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

# Debian 12 has 3.2.1. 3.2.5 is the first release safe from BlastRADIUS, 3.2.7 the first with a `tls` section for each
# RadSec client. 3.2.9 and 3.2.10 drop all values from a Python module (FreeRADIUS issue 5891).
SUPPORTED_FREERADIUS = ("3.2.7", "3.2.8")


@dataclass(frozen=True, slots=True)
class Package:
    name: str
    why: str
    # Whether this is a FreeRADIUS package. All FreeRADIUS packages must have the same version, from the backports.
    freeradius: bool = False
    # Service of the package that the distribution would start at boot. Admit runs its own process instead.
    unit: str = ""


# Packages that `up` installs.
REQUIRED_PACKAGES = (
    Package("freeradius", "the RADIUS server", freeradius=True, unit="freeradius.service"),
    Package("freeradius-python3", "radiusd's module that calls Admit", freeradius=True),
    Package("freeradius-utils", "radclient, for the demo", freeradius=True),
    Package("eapoltest", "an EAP supplicant, for the demo"),
    Package("openssl", "an OCSP and CRL client, for the demo"),
    Package("postgresql-15", "the database, as a private cluster"),
    Package("redis-server", "the broker of the worker's jobs", unit="redis-server.service"),
    Package("libjemalloc2", "radiusd's memory allocator"),
    Package("python3-venv", "creates the Python environment"),
)
BENCH_PACKAGES = (
    *REQUIRED_PACKAGES,
    Package("freeradius-postgresql", "the SQL module of a RADIUS server in the benchmark", freeradius=True),
)
TEST_PACKAGES = (
    *REQUIRED_PACKAGES,
    Package("hostapd", "an 802.1X switch port, for tests", unit="hostapd.service"),
    Package("wpasupplicant", "an 802.1X supplicant, for tests", unit="wpa_supplicant.service"),
    Package("iproute2", "network namespaces, for tests"),
    Package("slapd", "a directory server, for tests of identity sources", unit="slapd.service"),
    Package("ldap-utils", "a directory client, for tests"),
    Package("gnutls-bin", "an OCSP client, for tests"),
    Package("softhsm2", "a PKCS#11 token in software, for tests of key stores"),
    Package("strongswan-pki", "strongSwan's client of EST and SCEP, for tests"),
    Package("libstrongswan-extra-plugins", "the HTTP plugin of strongSwan's client, for tests"),
    Package("libstrongswan-standard-plugins", "the cryptographic plugins of strongSwan's client, for tests"),
    Package("chromium", "a browser with passkeys, for tests"),
    Package("curl", "a client of EST, for tests"),
    Package("jq", "verifies exports of the audit log independently, for tests"),
    Package("network-manager", "the parser of NetworkManager profiles, for tests", unit="NetworkManager.service"),
    Package("scep", "a SCEP client that supports only SHA-1, for tests"),
    Package("rsyslog", "a syslog server, for tests of feeds", unit="rsyslog.service"),
    Package("rsyslog-openssl", "the TLS module of the syslog server, for tests"),
)
# Dependencies of the packages above, with the same source and version.
FREERADIUS_COMPANIONS = ("freeradius-common", "freeradius-config", "libfreeradius3")


def installed_versions(packages: Sequence[Package] = REQUIRED_PACKAGES) -> dict[str, str]:
    """Return the installed Debian versions of `packages` by name."""
    names = [package.name for package in packages]
    completed = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${binary:Package} ${db:Status-Status} ${Version}\n", *names],
        capture_output=True,
        text=True,
        # The exit status is not 0 if a name is unknown. Here this is not an error.
        check=False,
    )
    rows = (line.split() for line in completed.stdout.splitlines())
    # "libjemalloc2:amd64": multi-arch packages have their architecture in the name.
    return {row[0].partition(":")[0]: row[2] for row in rows if len(row) == 3 and row[1] == "installed"}


def upstream_version(debian_version: str) -> str:
    """Return the upstream part of a Debian version, such as "3.2.7" of "2:3.2.7+dfsg-1~bpo12+1"."""
    match = re.match(r"(?:\d+:)?(\d+(?:\.\d+)*)", debian_version)
    return match[1] if match else debian_version


def freeradius_objection(debian_version: str) -> str:
    """Return in one sentence why this FreeRADIUS version is not supported; "" if it is supported."""
    version = upstream_version(debian_version)
    if version in SUPPORTED_FREERADIUS:
        return ""
    numbers = tuple(int(part) for part in version.split("."))
    supported = " or ".join(SUPPORTED_FREERADIUS)
    if numbers < (3, 2, 5):
        return f"FreeRADIUS {version} is vulnerable to BlastRADIUS (CVE-2024-3596); Admit needs {supported}."
    if numbers in ((3, 2, 9), (3, 2, 10)):
        return f"FreeRADIUS {version} drops values from Python modules; Admit needs {supported}."
    return f"FreeRADIUS {version} is not supported; Admit needs {supported}."


def is_upgradable(debian_version: str) -> bool:
    """Whether a supported version is newer than `debian_version`, so that Admit can upgrade with apt.

    Admit never downgrades packages; people must downgrade manually.
    """
    return tuple(int(part) for part in upstream_version(debian_version).split(".")) < (3, 2, 7)


def list_missing(versions: dict[str, str], packages: Sequence[Package] = REQUIRED_PACKAGES) -> list[Package]:
    """Return the packages to install: missing packages, and FreeRADIUS packages that are too old."""
    return [
        package
        for package in packages
        if package.name not in versions or (package.freeradius and is_upgradable(versions[package.name]))
    ]
