"""A tenant in a cell that has uploaded the dictionaries of the installed radiusd."""

import pytest
from sqlalchemy import Engine

from nac.cells import service as cells
from nac.db import CellScope, TenantScope, session_scope
from nac.dictionary import read_dictionary, to_json
from nac.groups import ENDPOINT_GROUPS, USER_GROUPS
from nac.models import Tenant
from tests.dictionary.radiusd_library import FOLDER
from tests.factories.tenancy import ACTOR, Platform, make_platform, make_tenant


@pytest.fixture(scope="session")
def dictionary_json() -> bytes:
    return to_json(read_dictionary(FOLDER / "dictionary"))


@pytest.fixture
def platform(app_engine: Engine, cell_engine: Engine) -> Platform:
    return make_platform(app_engine, cell_engine, slots=2)


@pytest.fixture
def upload(cell_engine: Engine, platform: Platform, dictionary_json: bytes) -> None:
    with session_scope(CellScope(platform.cell_id), engine=cell_engine) as session:
        cells.upload_dictionary(session, cell_id=platform.cell_id, content=dictionary_json, server_version="3.2.7")


@pytest.fixture
def tenant(app_engine: Engine, platform: Platform, upload: None) -> Tenant:
    tenant = make_tenant(app_engine, platform, "alpha")
    with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
        ENDPOINT_GROUPS.create(session, actor=ACTOR, tenant_id=tenant.id, name="printers")
        USER_GROUPS.create(session, actor=ACTOR, tenant_id=tenant.id, name="staff")
    return tenant
