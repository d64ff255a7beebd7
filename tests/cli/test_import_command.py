"""`./admit import`: a preview, then the file."""

import json
from pathlib import Path

from tests.cli.conftest import Admit
from tests.imports.test_forms import CLIENTS, NODES

OF_ALPHA = ("-t", "alpha")


def test_file_is_previewed_and_then_imported(alpha: Admit, tmp_path: Path):
    (tmp_path / "nodes").write_text(NODES)
    asked = ("import", "packetfence-nodes", str(tmp_path / "nodes"), *OF_ALPHA)
    # The groups that it names do not exist.
    preview = alpha.run(*asked, "--dry-run")
    assert (preview.exit_code, "line 2: groups: Unknown group 'printers'" in preview.stderr) == (2, True)
    assert "line 4: 00:00:5e:00:53:03 was skipped: the status is unreg" in preview.stdout
    refused = alpha.run(*asked)
    assert (refused.exit_code, "line 2: groups" in refused.stderr) == (2, True)
    assert alpha.json("endpoint", "list", *OF_ALPHA) == []
    done = alpha.json(*asked, "--make-groups")
    assert done["counts"]["endpoints"]["add"] == 2
    listed = {row["mac"]: row["groups"] for row in alpha.json("endpoint", "list", *OF_ALPHA)}
    assert listed == {"00:00:5e:00:53:01": ["printers"], "00:00:5e:00:53:02": ["staff"]}


def test_unreadable_file_is_rejected_with_its_line(alpha: Admit, tmp_path: Path):
    (tmp_path / "clients.conf").write_text(CLIENTS + "$INCLUDE more\n")
    result = alpha.run("import", "freeradius-clients", str(tmp_path / "clients.conf"), *OF_ALPHA, "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout or result.stderr)["place"] == f"line {CLIENTS.count(chr(10)) + 1}"
