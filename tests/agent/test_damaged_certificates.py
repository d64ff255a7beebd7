"""Damaged server certificates on the cell's disk affect only their own tenant."""

from pathlib import Path

import pytest

from nac.kit.ids import SlotNumber
from nac.kit.settings import load_settings
from radius.agent.paths import CellPaths
from radius.agent.radiusd.configuration import RenderError
from radius.agent.radiusd.configuration_source import SlotRow
from radius.agent.radiusd.generation import Generations
from radius.agent.radiusd.tls_material import TlsMaterialStore

SERIAL = "0a"


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
        SlotRow(
            SlotNumber(number), 20_000 + 2 * number, 20_001 + 2 * number, "assigned", None, "a-secret-of-a-slot", ()
        )
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
