"""The agent renders a configuration that is complete, private and valid for radiusd. Its unlang has safe conditions."""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from radius.agent.paths import CellPaths
from radius.agent.radiusd import process
from radius.agent.radiusd.configuration import (
    CellConfig,
    NasClient,
    RenderError,
    SlotConfig,
    VerifierConfig,
    delete_configuration,
    python_path,
    render_configuration,
)
from radius.agent.radiusd.process import RadiusdError
from radius.agent.radiusd.tls_material import TlsMaterialStore
from radius.module.settings import ModuleSettings, load_settings

SECRET = "a.b_c:d/e+f=g@h!i#j*k,l;m?n~o^p-q"


@pytest.fixture
def config(tmp_path):
    paths = CellPaths(tmp_path / "cell")
    paths.prepare()
    materials = TlsMaterialStore(paths)
    placeholder = materials.ensure_placeholder()
    nases = (
        NasClient('odd "name" }', "192.0.2.1", SECRET, True),
        NasClient("old", "2001:db8::1", "sixteen-letters-", False),
    )
    slots = [
        SlotConfig(0, 18120, 18121, SECRET, placeholder, nas_clients=nases),
        SlotConfig(1, 18122, 18123, "another-secret-of-sixteen", placeholder),
    ]
    for slot in slots:
        materials.prepare_slot(slot.number)
    module = ModuleSettings("replica", "journal", "tls", 1 << 30, "interval", {0: "0a"}, "key")
    yield CellConfig(
        listen_address="127.0.0.1",
        status_port=18200,
        status_secret="status-secret",
        reject_delay_seconds=1.5,
        threads=3,
        python_path=python_path(),
        state_directory=paths.state,
        tls_directory=paths.tls,
        cache_directory=paths.sessions,
        module=module,
        slots=slots,
        verifier=VerifierConfig(18201, "verifier-secret-of-a-render"),
        max_sessions=300,
        max_packets_per_second=4_000,
    )
    delete_configuration(paths.sessions)


def rendered(config, target):
    render_configuration(config, target)
    return {
        path.relative_to(target).as_posix(): path.read_text()
        for path in sorted(target.rglob("*"))
        if path.is_file() and not path.is_symlink() and path.suffix != ".so"
    }


def test_values_are_in_the_rendered_files(config, tmp_path):
    files = rendered(config, tmp_path / "1")
    assert set(files) == {"radiusd.conf", "module.json", "slots/eap", "slots/end", "slots/servers"}
    assert [name for name, text in files.items() if "@{" in text] == []
    for file, line, count in (
        ("radiusd.conf", "reject_delay = 1.5", 1),
        ("radiusd.conf", "max_servers = 3", 1),
        ("slots/eap", "max_sessions = 300\n", 2),
        ("slots/eap", f'ca_path = "{config.tls_directory}/slot-1/ca"', 1),
        ("slots/eap", f'persist_dir = "{config.cache_directory}/slot-1"', 1),
        ("slots/servers", "max_pps = 4000\n", 2),
        ("slots/servers", "max_pps = 8000\n", 2),
        ("slots/servers", "ipaddr = 127.0.0.1", 4),
    ):
        assert files[file].count(line) == count, line
    assert f'secret = "{SECRET}"' in files["slots/servers"]
    assert all(f"port = {port}\n" in files["slots/servers"] for port in (18120, 18121, 18122, 18123))


def test_nas_is_a_client_by_address_without_its_name(config, tmp_path):
    servers = rendered(config, tmp_path / "1")["slots/servers"]
    assert "ipaddr = 192.0.2.1\n" in servers
    assert "ipv6addr = 2001:db8::1\n" in servers
    exempt = re.findall(r"ip(?:v6)?addr = (\S+)\n[^}]*shortname = slot-\d+:unsigned\n", servers)
    assert exempt == ["2001:db8::1"]
    assert "odd" not in servers


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1", "::"])  # noqa: S104
def test_radiusd_accepts_the_configuration(config, tmp_path, address, monkeypatch):
    render_configuration(replace(config, listen_address=address), tmp_path / "1")
    process.check_configuration(tmp_path / "1")


def test_radiusd_rejects_a_broken_configuration(config, tmp_path):
    render_configuration(config, tmp_path / "1")
    servers = tmp_path / "1" / "slots" / "servers"
    servers.write_text(servers.read_text() + "\nserver broken {\n\tauthorize {\n\t\tno_such_module\n\t}\n}\n")
    with pytest.raises(RadiusdError, match="no_such_module"):
        process.check_configuration(tmp_path / "1")


def test_radiusd_warns_only_of_clients_without_a_secret(config, tmp_path, capfd):
    """Users overlook warnings that every start prints."""
    render_configuration(config, tmp_path / "1")
    done = subprocess.run(
        [process.RADIUSD_PROGRAM, "-C", "-x", "-d", str(tmp_path / "1"), "-n", "radiusd", "-l", "stdout"],
        capture_output=True,
        text=True,
        env=process.radiusd_environment(tmp_path / "1"),
        check=True,
    )
    warnings = [line for line in done.stdout.splitlines() if re.search(r"warn|deprecat|insecure", line, re.IGNORECASE)]
    assert warnings == []


def test_module_finds_its_settings(config, tmp_path, monkeypatch):
    render_configuration(config, tmp_path / "1")
    monkeypatch.setenv("ADMIT_MODULE_SETTINGS", process.radiusd_environment(tmp_path / "1")["ADMIT_MODULE_SETTINGS"])
    assert load_settings() == config.module


@pytest.mark.parametrize(
    "secret",
    ["", "fifteen-letters", "x" * 129, *(f"sixteen-letters-{letter}" for letter in ' "\\$%{\nü\0')],
)
def test_unsafe_secret_is_rejected_by_name(config, tmp_path, secret):
    slots = [replace(config.slots[0], secret=secret, nas_clients=()), config.slots[1]]
    with pytest.raises(RenderError, match="slot 0 must be 16 to 128"):
        render_configuration(replace(config, slots=slots), tmp_path / "1")
    nas = NasClient("switch", "192.0.2.1", secret, True)
    slots = [replace(config.slots[0], nas_clients=(nas,))]
    with pytest.raises(RenderError, match="NAS 'switch'"):
        render_configuration(replace(config, slots=slots), tmp_path / "2")


def test_files_with_secrets_are_private(config, tmp_path):
    render_configuration(config, tmp_path / "1")
    names = {".": 0o700, "slots": 0o700, **dict.fromkeys(("radiusd.conf", "module.json"), 0o600)}
    names |= dict.fromkeys(("slots/eap", "slots/servers"), 0o600)
    assert {name: (tmp_path / "1" / name).stat().st_mode & 0o777 for name in names} == names
    # An existing directory is never overwritten.
    with pytest.raises(FileExistsError):
        render_configuration(config, tmp_path / "1")


@pytest.mark.parametrize(
    ("versions", "least", "most"), [(("1.2", "1.3"), "1.2", "1.3"), (("1.3",), "1.3", "1.3"), (("1.2",), "1.2", "1.2")]
)
def test_slot_uses_its_tenants_tls_versions(config, tmp_path, versions, least, most):
    first, second = config.slots
    files = rendered(replace(config, slots=[replace(first, tls_versions=versions), second]), tmp_path / "1")
    of_first, of_second = files["slots/eap"].split("eap eap_1 {")
    assert (f'tls_min_version = "{least}"' in of_first, f'tls_max_version = "{most}"' in of_first) == (True, True)
    assert 'tls_min_version = "1.2"' in of_second
    assert 'tls_max_version = "1.3"' in of_second
    process.check_configuration(tmp_path / "1")


def test_radiusd_version_returns_the_modules_result():
    """`radiusd` 3.2.9 and 3.2.10 discard the values that Python returns unless started with -X."""
    assert process.installed_version() in ("3.2.7", "3.2.8")


RADDB = Path(__file__).parents[2] / "radius" / "raddb"
_CONDITION = re.compile(r"^\s*(?:els)?if (\(.*\)) \{$", re.MULTILINE)
# In 3.2, a comparison with an absent attribute makes the whole condition false, even after a `!` (radius_evaluate_cond
# in src/main/evaluate.c). Write `!(&Attribute && (&Attribute == value))`.
_UNEQUAL = re.compile(r"!=|!~")
_COMPARED = re.compile(r"(&[\w.:-]+) (?:==|=~|<|>|<=|>=) (&[\w.:-]+)?")


def conditions() -> list[str]:
    return [found for path in RADDB.rglob("*") if path.is_file() for found in _CONDITION.findall(path.read_text())]


def negated_groups(condition: str) -> Iterator[str]:
    """The contents of the parentheses after each `!`."""
    for start in (found.end() for found in re.finditer(r"!\(", condition)):
        depth, end = 1, start
        while depth:
            depth += {"(": 1, ")": -1}.get(condition[end], 0)
            end += 1
        yield condition[start : end - 1]


def unguarded(condition: str) -> list[str]:
    """Attributes that a negated group compares without a check of their presence."""
    return [
        name
        for group in negated_groups(condition)
        for found in _COMPARED.finditer(group)
        for name in filter(None, found.groups())
        if f"{name} && " not in group[: found.start()]
    ]


def test_no_condition_is_false_for_an_absent_attribute():
    assert len(conditions()) > 20
    assert [each for each in conditions() if _UNEQUAL.search(each)] == []
    assert [each for each in conditions() if unguarded(each)] == []
