"""One whole Admit for all files of this folder, each with tenants of its own."""

from collections.abc import Iterator

import pytest

from tests.faults.instance import Instance


@pytest.fixture(scope="package")
def instance() -> Iterator[Instance]:
    instance = Instance()
    try:
        instance.up()
        yield instance
    finally:
        instance.close()
