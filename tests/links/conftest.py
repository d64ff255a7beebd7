from tests.api.conftest import client, public_app, public_settings

__all__ = ["client", "public_app", "public_settings"]
