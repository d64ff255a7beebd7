"""Compiled policies that the module stores."""

import gc
import json

import pytest

from nac.cellformat.replica.records import PolicyRecord, SiteRecord
from radius.module import policies
from radius.module.policies import CompiledPolicies

DOCUMENT = json.dumps({"fallback": {"verdict": "permit", "vlan": "20"}}).encode()


@pytest.fixture(autouse=True)
def thaw():
    """Make all objects collectable again for the other tests."""
    yield
    gc.unfreeze()


def site(name, *, time_zone="UTC", fallback=b""):
    return SiteRecord(name, name, "office", fallback, time_zone=time_zone)


def zoned(name):
    """Sites in different time zones do not share a policy."""
    return site(name, time_zone=f"Etc/GMT+{ord(name) - ord('a')}")


def office(*, version=1):
    return PolicyRecord("office", "Office", version, DOCUMENT)


def test_policy_is_compiled_once_for_identical_sites():
    store = CompiledPolicies()
    first = store.for_site(site("main"), office())
    assert store.for_site(site("main"), office()) is first
    assert store.for_site(site("branch"), office()) is first


def test_new_document_version_or_fallback_is_recompiled():
    store = CompiledPolicies()
    other = PolicyRecord("office", "Office", 1, b'{"fallback": {"verdict": "deny"}}')
    found = [
        store.for_site(site("main"), office()),
        store.for_site(site("main"), other),
        store.for_site(site("main"), office(version=2)),
        store.for_site(site("main", fallback=b'{"verdict": "deny"}'), office(version=2)),
    ]
    assert [each.version for each in found] == [1, 1, 2, 2]
    assert [each.policy.decisions.of((), -1).permitted for each in found] == [True, False, True, False]


def test_site_over_the_limit_evicts_only_the_oldest(monkeypatch):
    monkeypatch.setattr(policies, "MAX_COMPILED_POLICIES", 2)
    store = CompiledPolicies()
    a, b = (store.for_site(zoned(name), office()) for name in "ab")
    store.for_site(zoned("c"), office())
    assert store.for_site(zoned("b"), office()) is b
    assert store.for_site(zoned("a"), office()) is not a


def test_new_version_at_the_limit_evicts_nothing(monkeypatch):
    monkeypatch.setattr(policies, "MAX_COMPILED_POLICIES", 2)
    store = CompiledPolicies()
    a = store.for_site(zoned("a"), office())
    store.for_site(zoned("b"), office())
    store.for_site(zoned("b"), office(version=2))
    assert store.for_site(zoned("a"), office()) is a


def test_compiled_policies_are_excluded_from_garbage_collection():
    """The garbage collector would scan thousands of objects, and every request would wait."""
    compiled = CompiledPolicies().for_site(site("main"), office())
    assert gc.is_tracked(compiled)
    assert not any(each is compiled for each in gc.get_objects())
