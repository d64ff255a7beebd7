"""`./admit audit verify`, which needs no installation."""

import json
from pathlib import Path

from click.testing import CliRunner

from cli.main import admit
from tests.audit.conftest import Log
from tests.audit.conftest import log as log


def test_export_is_verified_without_a_database(log: Log, tmp_path: Path, monkeypatch) -> None:
    log.write(log.alpha, "one")
    log.seal()
    monkeypatch.setenv("ADMIT_VAR_DIR", "/nonexistent")
    export = tmp_path / "export"
    lines = log.export(log.alpha)
    export.write_text("\n".join(lines) + "\n")
    good = CliRunner().invoke(admit, ["audit", "verify", str(export), "--head", str(export), "--json"])
    assert (good.exit_code, json.loads(good.stdout)["verified"]) == (0, True), good.output
    export.write_text("\n".join([*lines[:-2], lines[-1]]) + "\n")
    bad = CliRunner().invoke(admit, ["audit", "verify", str(export)])
    assert bad.exit_code == 1
    assert "the end is for" in bad.stdout
    export.write_text("x\n")
    assert CliRunner().invoke(admit, ["audit", "verify", str(export)]).exit_code == 2
