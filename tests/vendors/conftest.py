from tests.dictionary.conftest import dictionary, radiusd

__all__ = ["dictionary", "radiusd"]
