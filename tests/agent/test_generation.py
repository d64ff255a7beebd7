"""Generations of radiusd's files: version, damaged certificates, ports, and rows that cannot be configuration."""

import shutil
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy import Engine, select, update
from sqlalchemy.orm import Session

from nac.kit.db import CellScope, session_scope
from nac.kit.ids import SlotNumber
from nac.kit.listen_addresses import bind_socket
from nac.kit.settings import load_settings
from nac.kit.validation import RADIUS_SECRET
from nac.models import CertificateAuthority, Slot, Tenant
from radius.agent.paths import CellPaths
from radius.agent.radiusd.configuration import RenderError
from radius.agent.radiusd.configuration_source import ConfigurationSource, SlotRow
from radius.agent.radiusd.generation import (
    CHECKOUT,
    Generations,
    PortTaken,
    checkout_version,
    free_ports,
    require_free_ports,
    running_version,
)
from radius.agent.radiusd.tls_material import TlsMaterialStore
from tests.factories.certificates import SEALER, certify
from tests.factories.tenancy import Platform

SERIAL = "0a"
USUAL = "a-secret-of-a-slot"


@pytest.fixture
def checkout(tmp_path):
    for folder in ("radius/raddb", "radius/module", "radius/agent", "nac/cellformat/journal", "pki"):
        shutil.copytree(CHECKOUT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_version_changes_only_with_files_of_radiusd(checkout):
    """An upgrade must show in the version, because radiusd outlives the agent."""
    assert running_version() == checkout_version(CHECKOUT)
    versions = [checkout_version(checkout)]
    for name in (
        *("radius/raddb/templates/eap", "radius/module/auth.py"),
        *("nac/cellformat/journal/records.py", "pki/serials.py"),
    ):
        with (checkout / name).open("a") as file:
            file.write("#")
        versions.append(checkout_version(checkout))
    # A line moves from one file to another.
    for one, two in (("a", "bc"), ("ab", "c")):
        (checkout / "pki" / "one.py").write_text(one)
        (checkout / "pki" / "two.py").write_text(two)
        versions.append(checkout_version(checkout))
    assert len(set(versions)) == len(versions)
    (checkout / "radius" / "agent" / "cell.py").write_text("")
    (checkout / "radius" / "module" / "__pycache__").mkdir()
    (checkout / "radius" / "module" / "__pycache__" / "auth.pyc").write_bytes(b"x")
    assert checkout_version(checkout) == versions[-1]


@pytest.fixture
def paths(tmp_path: Path) -> CellPaths:
    paths = CellPaths(load_settings({"ADMIT_VAR_DIR": str(tmp_path)}).cell_dir)
    paths.prepare()
    paths.key.write_bytes(bytes(32))
    TlsMaterialStore(paths).ensure_placeholder()
    return paths


def made(paths: CellPaths, tmp_path: Path) -> tuple[dict[int, str], str]:
    """Write the loaded certificates and the TLS configuration of the slots."""
    slots = [
        SlotRow(SlotNumber(number), 20_000 + 2 * number, 20_001 + 2 * number, "assigned", None, USUAL, ())
        for number in (0, 1)
    ]
    generations = Generations(load_settings({"ADMIT_VAR_DIR": str(tmp_path)}), paths)
    generation = generations.make(slots, {0: SERIAL, 1: SERIAL}, status_port=21_000)
    return generation.facts.baked, (generation.directory / "slots" / "eap").read_text()


def test_damaged_tenant_certificate_blocks_no_other_tenant(paths: CellPaths, tmp_path: Path) -> None:
    whole, damaged = (paths.server_certificate(number, SERIAL) for number in (0, 1))
    content = paths.placeholder.read_bytes()
    for path in (whole, damaged):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if path == whole else content[: len(content) // 2])
    baked, configured = made(paths, tmp_path)
    assert baked == {0: SERIAL}
    assert str(whole) in configured
    assert str(damaged) not in configured
    assert str(paths.placeholder) in configured


def test_damaged_certificate_without_a_tenant_is_reported(paths: CellPaths, tmp_path: Path) -> None:
    paths.placeholder.write_bytes(b"")
    with pytest.raises(RenderError, match=f"^{paths.placeholder} is damaged"):
        made(paths, tmp_path)


def slots_with(
    owner_engine: Engine, directory: ConfigurationSource, tenant: Tenant, secret: bytes
) -> Sequence[SlotRow]:
    """Write slots in which this tenant's slot has this secret."""
    with Session(owner_engine) as session:
        for row in session.scalars(select(Slot)):
            plain = secret if row.tenant_id == tenant.id else USUAL.encode()
            row.secret_sealed = SEALER.seal(plain, f"slot:{row.id}")
        session.commit()
    return directory.slots(count=4)


@pytest.mark.parametrize("secret", [b"short", b'"}\n client x { ipaddr = *', b"\xff" * 20])
def test_unusable_secret_affects_only_its_tenant(
    owner_engine: Engine, cell_engine: Engine, platform: Platform, alpha: Tenant, secret: bytes
) -> None:
    directory = ConfigurationSource(cell_engine, platform.cell_id, SEALER)
    found = slots_with(owner_engine, directory, alpha, secret)
    assert len(found) == 4
    (its,) = (row.secret for row in found if row.tenant_id == alpha.id)
    assert {row.secret for row in found if row.tenant_id != alpha.id} == {USUAL}
    assert RADIUS_SECRET.fullmatch(its)
    assert directory.unusable_secrets == [f"slot {row.number}" for row in found if row.tenant_id == alpha.id]
    # Otherwise the agent would replace radiusd again and again.
    assert directory.slots(count=4) == found
    assert {row.secret for row in slots_with(owner_engine, directory, alpha, USUAL.encode())} == {USUAL}
    assert not directory.unusable_secrets


def test_cyclic_authorities_are_followed_once(
    app_engine: Engine, owner_engine: Engine, cell_engine: Engine, platform: Platform, alpha: Tenant
) -> None:
    authorities = certify(app_engine, alpha.id).authorities
    root, issuing = authorities.root, authorities.issuing
    with Session(owner_engine) as session:
        circle = update(CertificateAuthority).where(CertificateAuthority.id == root.id)
        session.execute(circle.values(cross_der=root.certificate_der))
        session.commit()
    with session_scope(CellScope(platform.cell_id), engine=cell_engine) as session:
        chain = ConfigurationSource._chain(session, alpha.id, issuing.id)
    assert chain == [issuing.certificate_der, root.certificate_der, root.certificate_der]


def test_port_in_use_for_ipv4_is_reported(paths: CellPaths, tmp_path: Path) -> None:
    settings = load_settings({"ADMIT_VAR_DIR": str(tmp_path), "ADMIT_LISTEN_ADDRESS": "::"})
    auth, acct, status = free_ports("::", 3)
    slots = [SlotRow(SlotNumber(0), auth, acct, "assigned", None, USUAL, ())]
    facts = Generations(settings, paths).make(slots, {}, status_port=status).facts
    require_free_ports(facts)
    with (
        bind_socket("127.0.0.1", acct, socket.SOCK_DGRAM),
        pytest.raises(PortTaken, match=rf"UDP port {acct} of 0\.0\.0\.0 is in use"),
    ):
        require_free_ports(facts)


def test_free_ports_are_free_in_both_families() -> None:
    ports = free_ports("::", 20)
    assert len(set(ports)) == 20
    for port in ports:
        for address in ("127.0.0.1", "::1"):
            bind_socket(address, port, socket.SOCK_DGRAM).close()
