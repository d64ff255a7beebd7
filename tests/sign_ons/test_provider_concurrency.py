"""Limits of concurrent requests to providers, including providers that never respond."""

from contextlib import ExitStack

import pytest

from nac.accounts.sign_in_errors import TooManySignIns
from nac.accounts.sign_ons import provider_limits
from nac.accounts.sign_ons.provider_limits import ProviderLimits
from nac.kit.errors import Forbidden, Unavailable


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def all_places(clock: Clock) -> ProviderLimits:
    return ProviderLimits(clock=clock)


def ask(all_places: ProviderLimits, owner: str, *, fails: Exception | None = None, host: str = "idp.example") -> None:
    with all_places.one(owner=owner, host=host):
        if fails is not None:
            raise fails


def hang(all_places: ProviderLimits, stack: ExitStack, owner: str, *, times: int) -> int:
    """The number of requests that got a slot."""
    for number in range(times):
        try:
            stack.enter_context(all_places.one(owner=owner, host=f"{owner}.example"))
        except TooManySignIns:
            return number
    return times


def test_hanging_providers_leave_slots_for_others(all_places):
    ask(all_places, "good")
    with ExitStack() as stack:
        assert [hang(all_places, stack, f"evil{n}", times=4) for n in range(6)] == [1, 1, 1, 1, 0, 0]
        ask(all_places, "good")
        # As many requests at once as the maximum.
        for _ in range(provider_limits.MAX_PER_OWNER):
            stack.enter_context(all_places.one(owner="good", host="idp.example"))
        with pytest.raises(TooManySignIns):
            ask(all_places, "good")
    ask(all_places, "new")


def test_shared_provider_host_has_a_limit(all_places):
    for number in range(4):
        ask(all_places, f"owner{number}")
    with ExitStack() as stack:
        for number in range(provider_limits.MAX_PER_HOST):
            stack.enter_context(all_places.one(owner=f"owner{number % 4}", host="idp.example"))
        with pytest.raises(TooManySignIns):
            ask(all_places, "owner5")


def test_failing_provider_backs_off_without_affecting_others(all_places, clock):
    pauses = []
    for number in range(10):
        with pytest.raises(Unavailable):
            ask(all_places, "evil", fails=Unavailable("it hangs"), host=f"{number}.example")
        began = clock.now
        while True:
            try:
                ask(all_places, "evil", fails=Forbidden("not asked"))
            except Forbidden:
                break
            except TooManySignIns:
                clock.now += 1
        pauses.append(clock.now - began)
        ask(all_places, "good")
    assert pauses == [0, 0, 2, 4, 8, 16, 32, 60, 60, 60]


def test_hanging_provider_after_success_has_one_slot(all_places):
    ask(all_places, "evil", host="evil.example")
    with pytest.raises(Unavailable):
        ask(all_places, "evil", fails=Unavailable("it hangs"), host="evil.example")
    with ExitStack() as stack:
        assert hang(all_places, stack, "evil", times=4) == 1
    # The provider received no request, so the failure does not count.
    with pytest.raises(Forbidden):
        ask(all_places, "other", fails=Forbidden("of another provider"), host="other.example")
    with ExitStack() as stack:
        assert hang(all_places, stack, "other", times=4) == 1
