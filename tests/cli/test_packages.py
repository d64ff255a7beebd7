import pytest

from cli.packages import REQUIRED_PACKAGES, freeradius_objection, is_upgradable, list_missing, upstream_version

EVERYTHING = {package.name: "3.2.7+dfsg-1~bpo12+1" for package in REQUIRED_PACKAGES}


@pytest.mark.parametrize(
    ("version", "complaint"),
    [
        ("3.2.7+dfsg-1~bpo12+1", ""),
        ("3.2.8+dfsg-1", ""),
        ("1:3.2.8-2", ""),
        ("3.2.1+dfsg-4+deb12u1", "BlastRADIUS"),
        ("3.0.26~dfsg-1", "BlastRADIUS"),
        ("3.2.6+dfsg-1", "is not supported"),
        ("3.2.9+dfsg-1", "drops values"),
        ("3.2.10+dfsg-1", "drops values"),
        ("3.2.11+dfsg-1", "is not supported"),
    ],
)
def test_freeradius_version_check_is_one_sentence(version: str, complaint: str):
    said = freeradius_objection(version)
    assert complaint in said
    assert bool(said) == bool(complaint)
    assert said.count(". ") == 0


def test_nothing_is_missing_if_everything_is_installed():
    assert list_missing(EVERYTHING) == []


def test_absent_package_is_missing():
    assert [package.name for package in list_missing({**EVERYTHING} | {"x": "1"})] == []
    without = {name: version for name, version in EVERYTHING.items() if name != "eapoltest"}
    assert [package.name for package in list_missing(without)] == ["eapoltest"]


def test_release_freeradius_is_upgraded_with_its_siblings():
    old = EVERYTHING | {"freeradius": "3.2.1+dfsg-4", "freeradius-utils": "3.2.1+dfsg-4"}
    assert [package.name for package in list_missing(old)] == ["freeradius", "freeradius-utils"]


def test_newer_freeradius_is_not_downgraded():
    assert not is_upgradable("3.2.10+dfsg-1")
    assert is_upgradable("3.2.6+dfsg-1")


@pytest.mark.parametrize(("debian", "expected"), [("5:7.0.15-1~deb12u10", "7.0.15"), ("15.20-0+deb12u1", "15.20")])
def test_upstream_version_drops_epoch_and_revision(debian: str, expected: str):
    assert upstream_version(debian) == expected
