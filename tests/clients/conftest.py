"""A real API on a loopback port, for clients generated from its description."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from api.main import create_app
from nac.core.access.grants import Owner
from nac.kit.ids import TenantId
from nac.tenancy.cells import service as cells
from tests.api.app_server import serve_app_on_port, settings_of_public
from tests.api.v1.conftest import MakeToken, make_token, tenant_id
from tests.factories.certificates import SEALER
from tests.factories.tenancy import Platform
from tests.postgres import Database

__all__ = ["make_token", "tenant_id"]


class Api(NamedTuple):
    url: str
    # Tokens of the tenant alpha and of the platform.
    token: str
    platform_token: str


@pytest.fixture
def api(
    database: Database,
    tmp_path: Path,
    owner_engine: Engine,
    tenant_id: TenantId,
    platform: Platform,
    make_token: MakeToken,
) -> Iterator[Api]:
    with Session(owner_engine) as session, session.begin():
        slot = cells.require_slot(session, tenant_id=tenant_id)
        slot.secret_sealed = SEALER.seal(b"the-secret-of-alpha-01", cells.slot_secret_context(slot))
    tokens = make_token(Owner(tenant_id=tenant_id)), make_token(Owner())
    with serve_app_on_port(create_app(settings_of_public(database, tmp_path))) as url:
        yield Api(url, *tokens)
