import pytest

from nac.engine.dictionary import Dictionary
from tests.dictionary.radiusd_library import Library
from tests.factories.dictionary import installed_dictionary


@pytest.fixture(scope="session")
def dictionary() -> Dictionary:
    return installed_dictionary()


@pytest.fixture(scope="session")
def radiusd() -> Library:
    return Library()
