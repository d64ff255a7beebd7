import pytest
from sqlalchemy import Engine

from tests.api.conftest import client, public_app, public_settings
from tests.factories.certificates import Certified, certify
from tests.factories.tenancy import make_platform, make_tenant

__all__ = ["client", "public_app", "public_settings"]


@pytest.fixture
def alpha(app_engine: Engine, cell_engine: Engine) -> Certified:
    return certify(app_engine, make_tenant(app_engine, make_platform(app_engine, cell_engine), "alpha").id)
