import json
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from cli.commands._ca_refresh import freshness
from nac.kit.clock import utc_now
from nac.models import StatusSource
from tests.certificates.uploads import authority, pem
from tests.cli.conftest import Admit

NOW = utc_now()


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    root = authority("Corp Root", NOW)
    made = []
    for name, issuer in (("root", root), ("issuing", authority("Corp Issuing", NOW, by=root))):
        path = tmp_path / f"{name}.pem"
        path.write_bytes(pem(issuer))
        made.append(str(path))
    return made[0], made[1]


def test_every_upload_error_is_listed(alpha: Admit, files: tuple[str, str], tmp_path: Path) -> None:
    own = tmp_path / "own.pem"
    alpha.run("ca", "export", "issuing", "-t", "alpha", "--out", str(own))
    nothing = tmp_path / "nothing"
    nothing.write_text("nothing")
    done = alpha.run("ca", "import", "-t", "alpha", files[1], str(own), str(nothing), "--json")
    assert done.exit_code == 2
    places = [mistake["place"].partition(",")[0] for mistake in json.loads(done.stdout)["mistakes"]]
    assert places == ["nothing", "issuing.pem", "own.pem", "own.pem"]
    assert len(alpha.json("ca", "list", "-t", "alpha")) == 2


@pytest.mark.parametrize(
    ("hours_old", "hours_left", "failure", "told"),
    [
        (None, None, "", "no list"),
        (None, None, "no answer", "no list, failed"),
        (5, 2, "", "5 hours old"),
        (5, 2, "no answer", "5 hours old, failed"),
        (72, -1, "no answer", "3 days old, overdue, failed"),
    ],
)
def test_list_shows_the_crl_age_and_fetch_errors(
    hours_old: int | None, hours_left: int | None, failure: str, told: str
) -> None:
    now = utc_now()
    at = lambda hours: None if hours is None else now + timedelta(hours=hours)  # noqa: E731
    source = StatusSource(
        crl_this_update=at(hours_old and -hours_old), crl_next_update=at(hours_left), crl_failure=failure
    )
    assert freshness(source) == told


@pytest.mark.parametrize(("answer", "complaint"), [("", "confirmation required"), ("n\n", "Cancelled")])
def test_revoking_an_authority_needs_confirmation(alpha: Admit, answer: str, complaint: str) -> None:
    refused = alpha.run("ca", "revoke", "issuing", "-t", "alpha", "--json", text=answer)
    assert (refused.exit_code, json.loads(refused.stdout)["error"]) == (1, "refused")
    assert "This cannot be undone: Revoke an authority permanently" in refused.stderr
    assert complaint in refused.stderr
    assert alpha.json("ca", "show", "issuing", "-t", "alpha")["status"] == "active"
    assert alpha.run("ca", "revoke", str(UUID(int=0)), "-t", "alpha", "--yes").exit_code == 2
