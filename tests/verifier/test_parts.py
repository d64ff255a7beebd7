"""The cache, the circuit breaker and the gate of the verifier."""

import asyncio

import pytest

from nac.inventory.identity_sources.verifier_messages import VerificationResult
from radius.verifier.breaker import Breaker
from radius.verifier.gate import Gate, GateFull
from radius.verifier.verifier import PasswordCache

HELD = VerificationResult(source="corp", name="anna", groups=("staff",))


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


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
        import hashlib

        shown = repr(cache.__dict__)
        assert "secret" not in shown
        assert hashlib.sha256(b"secret").hexdigest() not in shown

    def test_oldest_entry_is_evicted_when_full(self, cache):
        for number in range(3):
            cache.keep(1, f"user-{number}", b"x", "v1", HELD, seconds=300)
        assert len(cache) == 3
        assert cache.find(1, "anna", b"secret", "v1") is None

    def test_zero_lifetime_stores_nothing(self, clock):
        cache = PasswordCache(clock=clock)
        cache.keep(1, "anna", b"secret", "v1", HELD, seconds=0)
        assert len(cache) == 0


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

    def test_one_login_after_the_pause_closes_the_breaker(self, breaker, clock):
        self.fail(breaker, 3)
        clock.now += 15
        assert breaker.enter()
        assert not breaker.enter()
        breaker.succeeded()
        assert breaker.enter()
        assert not breaker.is_open

    def test_failed_probe_opens_the_breaker_again(self, breaker, clock):
        self.fail(breaker, 3)
        clock.now += 15
        assert breaker.enter()
        breaker.failed()
        clock.now += 14
        assert not breaker.enter()
        clock.now += 1
        assert breaker.enter()

    def test_abandoned_probe_allows_another(self, breaker, clock):
        self.fail(breaker, 3)
        clock.now += 15
        assert breaker.enter()
        breaker.gave_up()
        assert breaker.enter()


class TestGate:
    def test_gate_admits_up_to_the_limit(self):
        async def run():
            gate = Gate(inside=2, waiting=1)
            release = asyncio.Event()
            inside = []

            async def login(number):
                async with gate.enter():
                    inside.append(number)
                    await release.wait()

            tasks = [asyncio.create_task(login(number)) for number in range(3)]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert inside == [0, 1]
            with pytest.raises(GateFull):
                await login(3)
            release.set()
            await asyncio.gather(*tasks)
            assert inside == [0, 1, 2]
            await login(4)

        asyncio.run(run())

    def test_tenants_share_the_limit_fairly(self):
        async def run():
            shared = asyncio.Semaphore(2)
            alpha, bravo = (Gate(inside=1, waiting=100, shared=shared) for _ in range(2))
            release = asyncio.Event()
            inside = []

            async def login(gate, name):
                async with gate.enter():
                    inside.append(name)
                    await release.wait()

            flood = [asyncio.create_task(login(alpha, "alpha")) for _ in range(50)]
            await asyncio.sleep(0.01)
            other = asyncio.create_task(login(bravo, "bravo"))
            await asyncio.sleep(0.01)
            assert inside == ["alpha", "bravo"]
            release.set()
            await asyncio.gather(*flood, other)

        asyncio.run(run())
