"""Identity sources in a running verifier: created, changed and removed while logins wait."""

import asyncio

import pytest

from nac.cellformat.replica.records import IdentitySourceRecord
from nac.kit.outbound.reach import DEFAULT_REACH
from nac.kit.secrets import MasterKeyFile, Sealer
from radius.verifier import sources as under_test
from radius.verifier.sources import LiveSources

TENANT = 1


class Source:
    """A source that takes time to close, as a source with connections does."""

    settings = under_test.LdapSettings(urls=("ldaps://corp.example",), base_dn="dc=corp")

    def __init__(self):
        self.closed = 0

    async def close(self):
        await asyncio.sleep(0)
        self.closed += 1


class View:
    def __init__(self, *records):
        self._records = list(records)

    def identity_sources(self, tenant):
        return self._records


def record(source_id, changed_at):
    return IdentitySourceRecord(source_id, f"corp-{source_id}", "ldap", 100, changed_at, b"{}", b"")


@pytest.fixture
def made(monkeypatch):
    made = []

    def make(*given):
        made.append(Source())
        return made[-1]

    monkeypatch.setattr(under_test, "build_source_client", make)
    return made


@pytest.fixture
def sources(tmp_path):
    return LiveSources(Sealer(MasterKeyFile.create(tmp_path / "key")), DEFAULT_REACH)


def test_concurrent_logins_after_a_change_share_one_source(sources, made):
    async def play():
        await sources.live(TENANT, "alpha", record("1", 1))
        return await asyncio.gather(*(sources.live(TENANT, "alpha", record("1", 2)) for _ in range(3)))

    found = asyncio.run(play())
    assert len({id(live) for live in found}) == 1
    assert [source.closed for source in made] == [1, 0]


def test_login_during_a_change_and_a_cleanup_is_served(sources, made):
    """A new source may have replaced the source that is being closed."""

    async def play():
        for source_id in ("1", "2"):
            await sources.live(TENANT, "alpha", record(source_id, 1))
        tidying = asyncio.create_task(sources.tidy(View(record("2", 2))))
        await asyncio.sleep(0)
        live = await sources.live(TENANT, "alpha", record("2", 2))
        await tidying
        return live, await sources.live(TENANT, "alpha", record("2", 2))

    first, second = asyncio.run(play())
    assert first is second
    assert [source.closed for source in made] == [1, 1, 0]
