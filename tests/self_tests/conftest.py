from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from nac.onboarding.self_tests.runner import SelfTestPlatform
from tests.agent.cell_process import LOOPBACK, RunningCell, RunningTenant, running_cell, running_tenant
from tests.postgres import Database

# One result of each kind.
POLICY = {
    "rules": [
        {
            "id": "printers",
            "name": "Printers",
            "when": {"attribute": "endpoint.group", "operator": "equals", "value": "printers"},
            "then": {"verdict": "permit", "vlan": "20"},
        },
        {
            "id": "laptops",
            "name": "Laptops",
            "when": {"attribute": "certificate.profile", "operator": "equals", "value": "eap-client-device"},
            "then": {"verdict": "permit", "vlan": "30"},
        },
    ]
}


@pytest.fixture
def cell(database: Database, tmp_path) -> Iterator[RunningCell]:
    with running_cell(database, tmp_path) as cell:
        yield cell


@pytest.fixture
def acme(cell: RunningCell, app_engine: Engine) -> RunningTenant:
    return running_tenant(cell, app_engine, "acme", policy=POLICY, groups=["printers"])


@pytest.fixture
def self_tester(cell: RunningCell) -> SelfTestPlatform:
    return SelfTestPlatform(cell.signing, LOOPBACK, 0)
