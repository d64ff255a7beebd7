"""Packages of the distribution: which ones are missing or rejected, and which ones `./admit up` installs.

The test has its own `dpkg-query`, `apt-cache` and `apt-get`.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from cli.errors import Refused
from cli.install import ensure_packages
from cli.layout import CHECKOUT
from cli.output import Progress
from cli.packages import (
    BENCH_PACKAGES,
    REQUIRED_PACKAGES,
    TEST_PACKAGES,
    freeradius_objection,
    is_upgradable,
    list_missing,
    upstream_version,
)


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


@pytest.mark.parametrize(
    ("packages", "examples"),
    [(TEST_PACKAGES, {"slapd", "hostapd", "iproute2"}), (BENCH_PACKAGES, {"freeradius-postgresql"})],
    ids=["test", "bench"],
)
def test_development_packages_are_not_needed_to_run(machine, tmp_path: Path, packages, examples):
    machine()
    ensure_packages(Progress(), install=False, log=tmp_path / "log")
    more = [package.name for package in packages if package not in REQUIRED_PACKAGES]
    assert examples <= set(more)
    with pytest.raises(Refused, match=rf"missing: {', '.join(more)}\."):
        ensure_packages(Progress(), install=False, log=tmp_path / "log", packages=packages)
    machine(**{name.replace("-", "_"): "3.2.7-1" for name in more})
    ensure_packages(Progress(), install=False, log=tmp_path / "log", packages=packages)


@pytest.mark.parametrize(
    ("available", "expected"), [(("3.2.8-2", "3.2.7+dfsg-1", "3.2.1-4"), "3.2.7+dfsg-1"), (("3.2.8-2",), "3.2.8-2")]
)
def test_freeradius_packages_have_one_version(
    machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, available, expected
):
    machine()
    lines = "".join(f"freeradius | {version} | source\n" for version in available)
    for name, script in (("apt-cache", f"cat <<'END'\n{lines}END"), ("apt-get", f'echo "$@" >>{tmp_path}/requests')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr("cli.install.is_root", lambda: True)
    monkeypatch.setattr("cli.install._POLICY", tmp_path / "policy-rc.d")
    with pytest.raises(Refused, match="apt did not install freeradius-postgresql"):
        ensure_packages(Progress(), install=True, log=tmp_path / "log", packages=BENCH_PACKAGES)
    installed = (tmp_path / "requests").read_text().splitlines()[-1].split()
    names = [package.name for package in BENCH_PACKAGES if package.freeradius]
    siblings = [*names, "freeradius-common", "freeradius-config", "libfreeradius3"]
    assert [word for word in installed if "=" in word and "::" not in word][-len(siblings) :] == [
        f"{name}={expected}" for name in siblings
    ]


def test_freeradius_that_drops_values_is_rejected_and_kept(machine, tmp_path: Path):
    machine(freeradius="3.2.10+dfsg-1")
    with pytest.raises(Refused, match=r"FreeRADIUS 3\.2\.10 drops values"):
        ensure_packages(Progress(), install=True, log=tmp_path / "log")


def test_bench_keeps_standard_output_for_results(machine):
    machine(freeradius_postgresql="3.2.7+dfsg-1")
    command = [sys.executable, "-m", "cli", "bench", "cell", "--only", "nonsense"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "FreeRADIUS 3.2.7, PostgreSQL 15.1" in done.stderr
    assert "Invalid --only 'nonsense'" in done.stderr


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


def test_absent_or_old_packages_are_missing():
    installed = {package.name: "3.2.7+dfsg-1~bpo12+1" for package in REQUIRED_PACKAGES}
    assert list_missing(installed | {"x": "1"}) == []
    without = {name: version for name, version in installed.items() if name != "eapoltest"}
    assert [package.name for package in list_missing(without)] == ["eapoltest"]
    # FreeRADIUS of the release is upgraded with its siblings.
    old = installed | {"freeradius": "3.2.1+dfsg-4", "freeradius-utils": "3.2.1+dfsg-4"}
    assert [package.name for package in list_missing(old)] == ["freeradius", "freeradius-utils"]


def test_newer_freeradius_is_not_downgraded():
    assert not is_upgradable("3.2.10+dfsg-1")
    assert is_upgradable("3.2.6+dfsg-1")


@pytest.mark.parametrize(("debian", "expected"), [("5:7.0.15-1~deb12u10", "7.0.15"), ("15.20-0+deb12u1", "15.20")])
def test_upstream_version_drops_epoch_and_revision(debian: str, expected: str):
    assert upstream_version(debian) == expected
