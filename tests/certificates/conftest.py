import pytest
from sqlalchemy import Engine

from tests.factories.certificates import Certified, certify
from tests.factories.tenancy import Platform, make_platform, make_tenant


@pytest.fixture
def platform(app_engine: Engine, cell_engine: Engine) -> Platform:
    return make_platform(app_engine, cell_engine)


@pytest.fixture
def alpha(app_engine: Engine, platform: Platform) -> Certified:
    return certify(app_engine, make_tenant(app_engine, platform, "alpha").id)


@pytest.fixture
def bravo(app_engine: Engine, platform: Platform) -> Certified:
    return certify(app_engine, make_tenant(app_engine, platform, "bravo").id)
