"""The cache, the circuit breaker, the gate and the identity sources of the verifier."""

import asyncio
import hashlib
from dataclasses import dataclass, field

import pytest

from nac.cellformat.replica.records import IdentitySourceRecord
from nac.inventory.identity_sources.verifier_messages import VerificationResult
from nac.kit.outbound.reach import DEFAULT_REACH
from nac.kit.secrets import MasterKeyFile, Sealer
from radius.verifier import sources as under_test
from radius.verifier.breaker import Breaker
from radius.verifier.gate import Gate, GateFull
from radius.verifier.sources import LiveSources
from radius.verifier.verifier import PasswordCache

HELD = VerificationResult(source="corp", name="anna", groups=("staff",))


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@dataclass
class Logins:
    """Logins that stay inside their gate until `release`."""

    inside: list[str] = field(default_factory=list)
    release: asyncio.Event = field(default_factory=asyncio.Event)

    async def log_in(self, gate, name):
        async with gate.enter():
            self.inside.append(name)
            await self.release.wait()


class TestCache:
    @pytest.fixture
    def cache(self, clock):
        cache = PasswordCache(most=3, clock=clock)
        cache.keep(1, "anna", b"secret", "v1", HELD, seconds=300)
        return cache

    @pytest.mark.parametrize(
        ("tenant", "name", "password", "origin", "later", "found"),
        [
            (1, "anna", b"secret", "v1", 299, True),
            (1, "anna", b"secret", "v1", 300, False),
            (1, "anna", b"secret!", "v1", 0, False),
            (1, "anna", b"", "v1", 0, False),
            (1, "ann", b"asecret", "v1", 0, False),
            (2, "anna", b"secret", "v1", 0, False),
            (1, "anna", b"secret", "v2", 0, False),
        ],
    )
    def test_only_the_exact_password_of_the_exact_user_matches(
        self, cache, clock, tenant, name, password, origin, later, found
    ):
        clock.now += later
        assert cache.find(tenant, name, password, origin) == (HELD if found else None)

    def test_password_and_plain_digest_are_not_stored(self, cache):
        shown = repr(cache.__dict__)
        assert "secret" not in shown
        assert hashlib.sha256(b"secret").hexdigest() not in shown

    def test_oldest_entry_is_evicted_when_full(self, cache):
        # A lifetime of zero stores nothing.
        cache.keep(1, "bert", b"x", "v1", HELD, seconds=0)
        assert len(cache) == 1
        for number in range(3):
            cache.keep(1, f"user-{number}", b"x", "v1", HELD, seconds=300)
        assert len(cache) == 3
        assert cache.find(1, "anna", b"secret", "v1") is None


class TestBreaker:
    @pytest.fixture
    def breaker(self, clock):
        return Breaker(failures=3, seconds=15, clock=clock)

    def fail(self, breaker, times):
        for _ in range(times):
            assert breaker.enter()
            breaker.failed()

    def test_breaker_opens_after_consecutive_failures(self, breaker):
        self.fail(breaker, 2)
        assert breaker.enter()
        breaker.succeeded()
        self.fail(breaker, 3)
        assert breaker.is_open
        assert not breaker.enter()

    @pytest.fixture
    def probed(self, breaker, clock):
        """An open breaker that has admitted one login after its pause."""
        self.fail(breaker, 3)
        clock.now += 15
        assert [breaker.enter(), breaker.enter()] == [True, False]
        return breaker

    def test_one_login_after_the_pause_closes_the_breaker(self, probed):
        probed.succeeded()
        assert probed.enter()
        assert not probed.is_open

    def test_failed_probe_opens_the_breaker_again(self, probed, clock):
        probed.failed()
        clock.now += 14
        assert not probed.enter()
        clock.now += 1
        assert probed.enter()

    def test_abandoned_probe_allows_another(self, probed):
        probed.gave_up()
        assert probed.enter()


class TestGate:
    def test_gate_admits_up_to_the_limit(self):
        async def run():
            gate, logins = Gate(inside=2, waiting=1), Logins()
            tasks = [asyncio.create_task(logins.log_in(gate, number)) for number in range(3)]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert logins.inside == [0, 1]
            with pytest.raises(GateFull):
                await logins.log_in(gate, 3)
            logins.release.set()
            await asyncio.gather(*tasks)
            await logins.log_in(gate, 4)
            assert logins.inside == [0, 1, 2, 4]

        asyncio.run(run())

    def test_tenants_share_the_limit_fairly(self):
        async def run():
            shared, logins = asyncio.Semaphore(2), Logins()
            alpha, bravo = (Gate(inside=1, waiting=100, shared=shared) for _ in range(2))
            tasks = [asyncio.create_task(logins.log_in(alpha, "alpha")) for _ in range(50)]
            await asyncio.sleep(0.01)
            tasks.append(asyncio.create_task(logins.log_in(bravo, "bravo")))
            await asyncio.sleep(0.01)
            assert logins.inside == ["alpha", "bravo"]
            logins.release.set()
            await asyncio.gather(*tasks)

        asyncio.run(run())


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
