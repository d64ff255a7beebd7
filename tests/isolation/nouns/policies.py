"""Policies, their versions and trials."""

from tests.isolation.noun import Filler, Noun, Operation, Things

_IN_GROUP = {"attribute": "endpoint.group", "operator": "equals", "value": "$group"}
POLICY = {
    "rules": [{"id": "printers", "name": "Printers", "when": _IN_GROUP, "then": {"verdict": "permit", "vlan": "10"}}],
    "fallback": {"verdict": "deny"},
}


def _fill_tenant(filler: Filler, things: Things) -> None:
    ask = filler.ask
    for name in ("policy", "idle_policy", "drafted_policy"):
        ask("createPolicy", things | {"new_slug": things[name]})
    for name in ("policy", "drafted_policy"):
        ask("updatePolicyDraft", things | {"policy": things[name]})
    for _ in range(2):
        ask("publishPolicy", things | {"drafted_policy": things["policy"]})
        ask("updatePolicyDraft", things)
    ask("updateSite", things)


NOUN = Noun(
    operations={
        "listPolicies": Operation(3),
        "createPolicy": Operation(6, {"slug": "$new_slug", "name": "$new_name"}),
        "getPolicy": Operation(3),
        "updatePolicy": Operation(8, {"name": "$new_name"}),
        "deletePolicy": Operation(10, path={"policy": "idle_policy"}),
        "listPolicyVersions": Operation(3),
        "getPolicyVersion": Operation(3),
        "getPolicyDraft": Operation(3),
        "updatePolicyDraft": Operation(14, POLICY, query={"comment": "$new_name"}),
        "publishPolicy": Operation(25, {}, path={"policy": "drafted_policy"}),
        "rollBackPolicy": Operation(23, {"version": "$version", "comment": "$new_name"}),
        "getPolicyHits": Operation(6),
        "listPolicyAttributes": Operation(1),
        "getPolicySchema": Operation(1),
        "checkPolicy": Operation(4, {"document": POLICY}),
        "testPolicy": Operation(8, {"policy": "$policy", "version": "$version"}),
        "simulatePolicy": Operation(
            15, {"policy": "$policy", "site": "$site", "request": {"mac": "$mac", "method": "mab"}}
        ),
        "replayPolicy": Operation(9, {"policy": "$policy", "site": "$site", "days": 7}),
    },
    things={"version": 1},
    names=("policy", "idle_policy", "drafted_policy"),
    after=("groups", "sites"),
    fill_tenant=_fill_tenant,
)
