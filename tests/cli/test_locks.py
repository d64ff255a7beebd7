"""Both lock files hold exactly what pyproject.toml needs, and agree with each other."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution, packages_distributions

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cli.layout import CHECKOUT

_PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
_EXTRAS = _PROJECT["optional-dependencies"]
_PIN = re.compile(r"^([\w.-]+)==(\S+) \\\n((?: +--hash=\S+(?: \\)?\n)+)", re.MULTILINE)
# Requirements of each lock file in pyproject.toml.
REQUIREMENTS = {
    "requirements.lock": [*_PROJECT["dependencies"], *(r for name in _EXTRAS if name != "dev" for r in _EXTRAS[name])],
    "requirements-dev.lock": [*_PROJECT["dependencies"], *_EXTRAS["dev"]],
}


def read_pins(name: str) -> dict[str, tuple[str, str]]:
    """Version and hashes by package."""
    text = (CHECKOUT / name).read_text(encoding="utf-8")
    return {canonicalize_name(package): (version, hashes) for package, version, hashes in _PIN.findall(text)}


def find_dependencies(requirements: list[str]) -> set[str]:
    """Names of the packages that `requirements` install, by the metadata of the installed ones."""
    waiting = [Requirement(line) for line in requirements]
    found = set()
    while waiting:
        requirement = waiting.pop()
        entry = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if entry not in found:
            found.add(entry)
            needed = map(Requirement, distribution(requirement.name).requires or ())
            waiting += [each for each in needed if _applies(each, requirement.extras)]
    return {name for name, _ in found}


def _applies(requirement: Requirement, extras: set[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in (*extras, ""))


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_lock_holds_exactly_the_needed_packages(name):
    assert set(read_pins(name)) == find_dependencies(REQUIREMENTS[name])


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_lock_satisfies_pyproject(name):
    pins = read_pins(name)
    required = [Requirement(line) for line in REQUIREMENTS[name]]
    refused = [str(each) for each in required if not each.specifier.contains(pins[canonicalize_name(each.name)][0])]
    assert refused == []


def test_locks_agree_on_shared_packages():
    running, development = map(read_pins, REQUIREMENTS)
    shared = running.keys() & development.keys()
    assert "click" in shared
    assert {name: running[name] for name in shared} == {name: development[name] for name in shared}


def test_no_development_tool_is_needed_to_run():
    running = read_pins("requirements.lock")
    assert running.keys() & {"mypy", "mkdocs", "pip-tools", "playwright", "pytest", "ruff"} == set()
    assert len(running) > 50


# Loads every module, and the queue's client, without packages of development.
_LOAD_EVERYTHING = """
import importlib, pkgutil, sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"{name} belongs to development")

blocked = set(sys.argv[1:])
sys.meta_path.insert(0, Blocker())
# The documentation site, and what only radiusd can load.
skipped = ("cli.devtools.site", "radius.module")
for package in ("nac", "pki", "radius", "api", "worker", "cli"):
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if not module.name.endswith(".__main__") and not module.name.startswith(skipped):
            importlib.import_module(module.name)
from worker.app import app
app.connection_for_write().transport
"""


def test_processes_load_without_development_packages(tmp_path):
    running = read_pins("requirements.lock").keys()
    blocked = [
        module
        for module, distributions in packages_distributions().items()
        if not running & {canonicalize_name(name) for name in distributions}
    ]
    assert {"pytest", "mypy", "playwright"} <= set(blocked)
    settings = {"ADMIT_VAR_DIR": str(tmp_path), "ADMIT_REDIS_URL": f"unix://{tmp_path}/redis"}
    settings |= {f"ADMIT_{name}_URL": "postgresql://admit@/admit" for name in ("DATABASE", "DATABASE_WORKER")}
    command = [sys.executable, "-P", "-c", _LOAD_EVERYTHING, *blocked]
    done = subprocess.run(
        command,
        cwd=CHECKOUT,
        env=os.environ | settings | {"PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
