from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from nac.onboarding.self_tests.runner import SelfTestPlatform
from tests.agent.cell_process import LOOPBACK, RunningCell, RunningTenant, running_cell, running_tenant
from tests.postgres import Database


def _rule(name: str, attribute: str, value: str, vlan: int) -> dict[str, object]:
    when = {"attribute": attribute, "operator": "equals", "value": value}
    return {"id": name.lower(), "name": name, "when": when, "then": {"verdict": "permit", "vlan": str(vlan)}}


# One result of each kind.
POLICY = {
    "rules": [
        _rule("Printers", "endpoint.group", "printers", 20),
        _rule("Laptops", "certificate.profile", "eap-client-device", 30),
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
