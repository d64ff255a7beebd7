"""A real directory that contains a few users."""

from collections.abc import Iterator

import pytest

from nac.kit.outbound.reach import OutboundReach
from tests.identities.slapd import BASE, SERVICE_DN, Slapd, dn_of, group, person, tree

# The servers of the tests are on loopback, where Admit normally allows no sources.
HERE = OutboundReach.parse("127.0.0.0/8")
ANNA, ANNAS_PASSWORD = "anna", "anna's own password"


@pytest.fixture(scope="session")
def running_directory() -> Iterator[Slapd]:
    with Slapd() as slapd:
        slapd.load(
            tree()
            + person(ANNA, ANNAS_PASSWORD, mail="anna@corp.example", departmentNumber="IT")
            + person("bert", "bert's own password")
            + person("odd*name)(uid=anna", "odd password")
            + person("zoë", "pässwörd ☕")
            + group("staff", dn_of(ANNA), dn_of("bert"))
            + group("B, C+D", dn_of(ANNA))
            + group("everybody", f"cn=staff,ou=groups,{BASE}")
        )
        yield slapd


@pytest.fixture
def directory(running_directory: Slapd) -> Slapd:
    return running_directory


@pytest.fixture
def document(directory: Slapd) -> dict[str, object]:
    """The settings of a source that uses the directory."""
    return {
        "urls": [directory.ldaps],
        "ca_certificate": directory.ca_certificate,
        "bind_dn": SERVICE_DN,
        "base_dn": f"ou=people,{BASE}",
        "group_base_dn": f"ou=groups,{BASE}",
    }
