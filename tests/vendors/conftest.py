import pytest

from nac.dictionary import Dictionary, read_dictionary
from tests.dictionary.radiusd_library import FOLDER, Library


@pytest.fixture(scope="session")
def dictionary() -> Dictionary:
    return read_dictionary(FOLDER / "dictionary")


@pytest.fixture(scope="session")
def radiusd() -> Library:
    return Library()
