"""Requests generated from /openapi.json, valid and invalid: no response is a 5xx or undocumented."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.connections import HttpWithFiles
from tests.api.app_server import serve_app_on_port
from tests.isolation.fuzz_inputs import RollbackApplication, configuration, document
from tests.isolation.installation import BY_NAME, Installation
from tests.isolation.request_isolation import RequestIsolation
from tests.postgres import Database

_PROGRAM = Path(sys.executable).parent / "schemathesis"
_CHECKS = (
    *("status_code_conformance", "content_type_conformance", "response_schema_conformance"),
    *("response_headers_conformance", "not_a_server_error"),
)
# Checks that are disabled, and why. negative_data_rejection: JSON Schema is less strict than a model, and calls some
# accepted input bad, such as MAC addresses in any notation. positive_data_acceptance: well-formed input may be
# rejected. ignored_auth, object_level_authorization: tests/isolation covers every route and role. use_after_free,
# ensure_resource_availability: nothing persists here. missing_required_header: no route requires one. tests/isolation
# checks that each operation is reachable.
_SHARE_OF_GOOD = 0.85
# Operations that never succeed here, and why.
_NEVER_GOOD = {
    **dict.fromkeys(("switchMove", "finishMove"), "radiusd of the other cell does not run"),
    **dict.fromkeys(("startSignOn", "finishSignOn"), "nobody runs the other server"),
    **dict.fromkeys(("signIn", "signInByTotp", "signInByRecoveryCode", "signInByPasskey"), "nobody has such a secret"),
    **dict.fromkeys(("signUp", "confirmSignUp"), "trials are not offered"),
    "resetPassword": "there is no such link",
    "importRootKey": "the key was not taken away",
    "startSecretRotation": "it has begun",
    "updateEndpointsInBulk": "of several forms one is chosen that has no example",
}
_CHECKS_OF_BAD_INPUT = ("unsupported_method", "allow_header_conformance")


@pytest.fixture
def fed(world: Installation, isolation_database: Database) -> Iterator[tuple[Installation, RollbackApplication]]:
    isolation = RequestIsolation(isolation_database, has_row_security=True)
    yield world, RollbackApplication(world, isolation)
    isolation.close()


def _run(
    fed: tuple[Installation, RollbackApplication], folder: Path, *, phases: str, seconds: int, always: bool
) -> str:
    world, app = fed
    checks = (*_CHECKS, *(_CHECKS_OF_BAD_INPUT if "coverage" in phases else ()))
    settings, told = folder / "schemathesis.toml", folder / "openapi.json"
    settings.write_text(configuration(world, always=always))
    told.write_text(json.dumps(document(world)))
    with serve_app_on_port(app, http=HttpWithFiles, lifespan="off") as url:
        done = subprocess.run(
            [
                *(_PROGRAM, "--config-file", settings, "run", told, "--url", url, "--seed", "1"),
                *("--checks", ",".join(checks), "--phases", phases, "--max-time", str(seconds)),
                *("--max-examples", "10", "--continue-on-failure", "--no-shrink", "--no-color", "--warnings", "off"),
                *("--generation-database", "none", "--suppress-health-check", "all"),
            ],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    (folder / "findings.txt").write_text(done.stdout)
    assert done.returncode == 0, done.stdout[-12_000:] + done.stderr[-2_000:]
    assert app.answered, "nothing was asked"
    return done.stdout


def test_examples_get_documented_responses(fed: tuple[Installation, RollbackApplication], tmp_path: Path) -> None:
    _run(fed, tmp_path, phases="examples", seconds=12, always=True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("phases", "seconds", "always"),
    [("examples", 600, True), ("coverage", 3600, True), ("fuzzing", 2400, False)],
    ids=["examples", "coverage", "fuzzing"],
)
def test_generated_requests_get_documented_responses(
    fed: tuple[Installation, RollbackApplication], tmp_path: Path, phases: str, seconds: int, always: bool
) -> None:
    told = _run(fed, tmp_path, phases=phases, seconds=seconds, always=always)
    assert "Time limit reached" not in told
    if phases == "examples":
        answered = fed[1].answered
        asked = {name for name, _ in answered} & set(BY_NAME)
        good = {name for name, status in answered if status < 400}
        assert len(good & asked) >= _SHARE_OF_GOOD * len(asked), sorted(asked - good - set(_NEVER_GOOD))
