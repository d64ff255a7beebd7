"""Templates of an MSP, and their rollouts."""

from tests.isolation.noun import Filler, Noun, Operation, Things, unknown_ids
from tests.isolation.nouns.policies import POLICY

_TEMPLATE = {
    "endpoint_groups": ["$group"],
    "policies": [{"slug": "office", "document": POLICY}],
    "sites": [{"slug": "main", "time_zone": "Europe/Berlin", "policy": "office"}],
}


def _fill_msp(filler: Filler, things: Things) -> None:
    ask = filler.ask
    things |= {"follower": f"{things['mark']}-1", "second_tenant": f"{things['mark']}-2"}
    for slug in ("template", "idle_template", "stopped_template"):
        ask("createTemplate", things | {"new_slug": things[slug]})
    for slug, follower, rollout in (
        ("template", "follower", "rollout_id"),
        ("stopped_template", "second_tenant", "stopped_rollout"),
    ):
        given = things | {"template": things[slug], "stopped_template": things[slug]}
        ask("createTemplateVersion", given)
        ask("followTemplate", given | {"second_tenant": things[follower]})
        things[rollout] = ask("startRollout", given | {"second_tenant": things[follower]})["id"]
    ask("pauseRollout", things | {"template": things["stopped_template"], "rollout_id": things["stopped_rollout"]})


NOUN = Noun(
    operations={
        "listTemplates": Operation(3),
        "createTemplate": Operation(8, {"slug": "$new_slug"}),
        "getTemplate": Operation(3, path={"slug": "template"}),
        "updateTemplate": Operation(7, {"name": "$new_name"}, path={"slug": "template"}),
        "deleteTemplate": Operation(7, path={"slug": "idle_template"}),
        "listTemplateVersions": Operation(4, path={"slug": "template"}),
        "createTemplateVersion": Operation(
            9, {"document": _TEMPLATE, "comment": "$new_name"}, path={"slug": "template"}
        ),
        "getTemplateVersion": Operation(4, path={"slug": "template"}),
        "listTemplateTenants": Operation(4, path={"slug": "template"}),
        "followTemplate": Operation(
            11, {"overrides": ["site:main.time_zone"]}, path={"slug": "stopped_template", "follower": "second_tenant"}
        ),
        "releaseFromTemplate": Operation(13, path={"slug": "template"}),
        "listRollouts": Operation(4, path={"slug": "template"}),
        "startRollout": Operation(
            18,
            {"version": 1, "stages": [{"tenants": ["$second_tenant"], "minutes": 5}]},
            path={"slug": "stopped_template"},
        ),
        "getRollout": Operation(5, path={"slug": "template"}),
        "pauseRollout": Operation(10, path={"slug": "template"}),
        "resumeRollout": Operation(20, path={"slug": "stopped_template", "rollout_id": "stopped_rollout"}),
        "rollBackRollout": Operation(18, path={"slug": "stopped_template", "rollout_id": "stopped_rollout"}),
    },
    things={"number": 1},
    names=("template", "idle_template", "stopped_template"),
    unknown=unknown_ids("rollout_id", "stopped_rollout") | {"follower": "nobody", "second_tenant": "nobody"},
    fill_msp=_fill_msp,
)
