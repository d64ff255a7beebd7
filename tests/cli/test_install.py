"""A fake `dpkg-query` of the test reports what is installed."""

from pathlib import Path

import pytest

from cli.errors import Refused
from cli.install import ensure_packages
from cli.packages import REQUIRED_PACKAGES, TEST_PACKAGES
from cli.progress import Progress


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Set what is installed: name -> version; the rest is as the tests need it."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def install(**changes: str | None) -> None:
        versions = {package.name: "3.2.7+dfsg-1" if package.freeradius else "15.1-1" for package in REQUIRED_PACKAGES}
        versions |= {name.replace("_", "-"): version for name, version in changes.items()}
        lines = [f"{name}:amd64 installed {version}" for name, version in versions.items() if version]
        script = tmp_path / "dpkg-query"
        script.write_text("#!/bin/sh\ncat <<'END'\n" + "\n".join(lines) + "\nEND\n")
        script.chmod(0o755)

    return install


def test_complete_machine_is_reported(machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    machine()
    ensure_packages(Progress(), install=False, log=tmp_path / "log")
    assert "FreeRADIUS 3.2.7, PostgreSQL 15.1, Redis 15.1" in capsys.readouterr().out
    assert not (tmp_path / "log").exists()


def test_no_install_lists_all_missing_packages(machine, tmp_path: Path):
    machine(eapoltest=None, freeradius_utils=None)
    with pytest.raises(Refused, match=r"missing: freeradius-utils, eapoltest\..*without --no-install"):
        ensure_packages(Progress(), install=False, log=tmp_path / "log")


def test_only_tests_need_a_directory_server(machine, tmp_path: Path):
    machine()
    more = [package.name for package in TEST_PACKAGES if package not in REQUIRED_PACKAGES]
    assert {"slapd", "curl", "network-manager"} <= set(more)
    with pytest.raises(Refused, match=rf"missing: {', '.join(more)}\."):
        ensure_packages(Progress(), install=False, log=tmp_path / "log", packages=TEST_PACKAGES)
    machine(**{name.replace("-", "_"): "1.0-1" for name in more})
    ensure_packages(Progress(), install=False, log=tmp_path / "log", packages=TEST_PACKAGES)


def test_old_freeradius_counts_as_missing(machine, tmp_path: Path):
    machine(freeradius="3.2.1+dfsg-4+deb12u1")
    with pytest.raises(Refused, match=r"missing: freeradius\."):
        ensure_packages(Progress(), install=False, log=tmp_path / "log")


def test_freeradius_that_drops_values_is_rejected_and_kept(machine, tmp_path: Path):
    machine(freeradius="3.2.10+dfsg-1")
    with pytest.raises(Refused, match=r"FreeRADIUS 3\.2\.10 drops values"):
        ensure_packages(Progress(), install=True, log=tmp_path / "log")
