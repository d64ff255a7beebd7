"""The MoJ data set: its published size, its decisions, and its storage by Admit."""

import json
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import func, select

from loadtest.__main__ import main
from loadtest.bench_tenants import BenchTenants
from loadtest.moj_data import POLICIES, make_sites
from loadtest.moj_load import compile_policies, fill_replica, insert_sites
from loadtest.tenants import make_tenants
from nac.engine import PolicyRequest, compile_policy, decide
from nac.engine.dictionary import read_dictionary
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.models import Endpoint, Nas, Policy, PolicyVersion, Site

_DICTIONARY = Path("/usr/share/freeradius/dictionary")


@pytest.fixture(scope="module")
def sites():
    return make_sites()


def request_at(nas, **changes):
    facts = {
        "method": "mab",
        "endpoint.known": True,
        "nas.port_type": "Ethernet",
        "radius.Called-Station-Id": "00-1A-1E-00-00-01",
        "radius.NAS-Port-Id": "GigabitEthernet1/0/1",
        "radius.NAS-Port": str(nas.nas.port),
    }
    return PolicyRequest({name: (value,) for name, value in {**facts, **changes}.items()}, 0)


def test_data_set_has_the_published_size(sites):
    uses = Counter(policy for site in sites for policy in site.policies)
    assert (len(sites), len(uses)) == (1_750, 2_750)
    assert sum(len(site.nases) for site in sites) == 17_500
    assert {len(set(site.policies)) for site in sites} == {5}
    # A policy has 5 rules and 5 responses, three of them for the VLAN.
    rules = {rule["id"]: rule for site in sites for rule in site.document()["rules"]}
    assert sum(len(rule["when"]["all"]) for rule in rules.values()) == 13_750
    assert sum(3 + len(rule["then"]["reply"]) for rule in rules.values()) == 13_750
    assert sum(len(site.document()["fallback"]["reply"]) for site in sites) == 1_750


def test_sites_and_nases_are_unique(sites):
    assert len({frozenset(site.policies) for site in sites}) == len(sites)
    nases = [nas for site in sites for nas in site.nases]
    for field in ("identifier", "address", "mac"):
        assert len({getattr(nas, field) for nas in nases}) == len(nases)
    assert all(0 <= nas.policy < POLICIES for nas in nases)


def test_each_nas_matches_the_rule_of_its_port(sites):
    replies = read_dictionary(_DICTIONARY)
    for site in sites[::50]:
        policy = compile_policy(site.document(), replies=replies)
        for nas in site.nases:
            decision = decide(policy, request_at(nas))
            assert (decision.permitted, decision.vlan) == (True, nas.vlan)
            assert decision.rule_id == f"policy-{nas.policy:04d}"


def test_near_misses_fall_back_or_are_denied(sites):
    site = sites[7]
    policy, nas = compile_policy(site.document()), site.nases[0]
    elsewhere = decide(policy, request_at(nas, **{"radius.NAS-Port": "1"}))
    assert (elsewhere.reason, elsewhere.reply) == (
        "fallback-permitted",
        (("Reply-Message", ":=", f"Fallback of {site.slug}"),),
    )
    wireless = decide(policy, request_at(nas, **{"nas.port_type": "Wireless-802.11"}))
    assert wireless.reason == "fallback-permitted"
    unknown = decide(policy, request_at(nas, **{"endpoint.known": False}))
    assert (unknown.permitted, unknown.rule_id) == (False, "unknown-mac")
    certificate = decide(policy, request_at(nas, **{"endpoint.known": False, "method": "eap-tls"}))
    assert certificate.vlan == nas.vlan


def test_sites_are_stored_mirrored_and_compiled(installation, sites, tmp_path):
    few = sites[:3]
    with BenchTenants(installation, tmp_path, lambda line: None) as made:
        tenant = made.provision(make_tenants((1,))[0])
        with session_scope(TenantScope(tenant.tenant_id), engine=installation.engine) as session:
            site_ids = insert_sites(session, tenant.tenant_id, few)
        with session_scope(PlatformScope(), engine=installation.owner) as session:
            stored = [
                session.scalar(select(func.count()).select_from(table)) for table in (Site, Policy, PolicyVersion)
            ]
            devices = [session.scalar(select(func.count()).select_from(table)) for table in (Nas, Endpoint)]
        # In addition, the rows that every benchmark tenant has.
        assert stored == [3 + 1, 3 + 1, 3 + 1]
        assert devices == [30 + 1, 30 + 1]
        _, rows = fill_replica(installation, tenant, tmp_path / "replica")
        # In addition, the server certificate.
        assert rows == 4 + 4 + 31 + 31 + 1
        assert len(compile_policies(tmp_path / "replica", tenant.slot, site_ids)) == 3


@pytest.mark.long
def test_benchmark_measures_it_in_its_own_installation(capsys):
    assert main(["moj", "--seconds", "1", "--rounds", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [result["work"] for result in told["results"]] == ["mab", "mab-md5", "tls-full"]
    for result in told["results"]:
        assert [kind["wrong"] for kind in result["classes"].values()] == [{}]
        assert result["right_per_second"] > 0
    assert {target["target"] for target in told["targets"]} == {"P8"}
    assert len(told["targets"]) == 9
