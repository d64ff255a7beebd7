"""Requests made up from /openapi.json, good ones and bad ones: nothing is answered with a 5xx, and nothing in a way
that the document does not tell. Of every noun there is, whoever made it."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine

from api.main import create_app
from nac.accounts.owners import Owner
from nac.accounts.permissions import permissions_at
from nac.api_tokens import service as tokens
from nac.clock import utc_now
from nac.db import PlatformScope, session_scope
from nac.msps import service as msps
from tests.api.served import served_on_port, settings_of_public
from tests.factories.certificates import SEALER
from tests.factories.tenancy import ACTOR, Platform, make_cell, make_tenant
from tests.postgres import Database

_PROGRAM = Path(sys.executable).parent / "schemathesis"
_CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


@pytest.mark.parametrize(
    ("phases", "seconds"),
    [
        ("examples,fuzzing", 30),
        pytest.param("examples,coverage,fuzzing", 900, marks=pytest.mark.long),
    ],
    ids=["short", "long"],
)
def test_every_answer_is_documented_and_none_is_a_server_error(
    database: Database, app_engine: Engine, cell_engine: Engine, tmp_path: Path, phases: str, seconds: int
) -> None:
    with session_scope(PlatformScope(), engine=app_engine) as session:
        msp_id = msps.create_msp(session, actor=ACTOR, slug="acme").id
    make_tenant(app_engine, Platform(msp_id, make_cell(cell_engine, seal_with=SEALER.seal)), "alpha")
    with session_scope(PlatformScope(), engine=app_engine) as session:
        everything = permissions_at(Owner().level)
        token = tokens.make_token(
            session,
            actor=ACTOR,
            held=everything,
            owner=Owner(),
            name="all",
            permissions=everything,
            expires_at=utc_now() + timedelta(days=1),
        ).text
    named = '[parameters]\n"path.tenant" = "alpha"\n"path.msp" = "acme"\n'
    (tmp_path / "schemathesis.toml").write_text(named)
    with served_on_port(create_app(settings_of_public(database, tmp_path))) as url:
        done = subprocess.run(
            [
                *(_PROGRAM, "--config-file", tmp_path / "schemathesis.toml", "run", f"{url}/openapi.json"),
                *("--header", f"Authorization: Bearer {token}", "--seed", "1", "--checks", _CHECKS),
                *(
                    "--phases",
                    phases,
                    "--max-examples",
                    "20",
                    "--max-time",
                    str(seconds),
                    "--continue-on-failure",
                    "--no-color",
                ),
                *("--generation-database", "none", "--suppress-health-check", "all"),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-12_000:] + done.stderr[-2_000:]
