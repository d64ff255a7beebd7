"""Endpoints, their findings, and the inbox."""

from nac.models import Endpoint
from tests.isolation.noun import Filler, Noun, Operation, Things


def _fill_tenant(filler: Filler, things: Things) -> None:
    filler.ask("createEndpoint", things | {"new_mac": things["mac"], "new_name": f"device-{things['mark']}"})
    filler.ask("updateEndpointPosture", things)
    discovered = {"mac": things["found_mac"], "name": f"found-{things['domain']}", "status": "discovered"}
    with filler.session() as session:
        session.add(Endpoint(tenant_id=things["tenant_id"], **discovered))


NOUN = Noun(
    operations={
        "listEndpoints": Operation(3),
        "createEndpoint": Operation(15, {"mac": "$new_mac", "name": "$new_name", "groups": ["$group"]}),
        "getEndpoint": Operation(3),
        "updateEndpoint": Operation(17, {"name": "$new_name", "groups": ["$group"]}),
        "deleteEndpoint": Operation(12, path={"mac": "found_mac"}),
        "blockEndpoint": Operation(12),
        "unblockEndpoint": Operation(11),
        "getEndpointFindings": Operation(5),
        "listEndpointTimeline": Operation(12),
        "updateEndpointPosture": Operation(5, {"values": {"mdm.compliant": True}}),
        "updateEndpointPassphrase": Operation(11, {"passphrase": "correct horse battery"}),
        "deleteEndpointPassphrase": Operation(8),
        "listDiscoveredEndpoints": Operation(5),
        "classifyEndpoints": Operation(15, {"action": "approve", "macs": ["$found_mac"], "groups": ["$group"]}),
        "updateEndpointsInBulk": Operation(10, {"operation": "join-groups", "macs": ["$mac"], "groups": ["$group"]}),
        "importFile": Operation(
            24, query={"format": "endpoints"}, content="mac,name,groups\n$new_mac,$new_name,$group\n"
        ),
        "exportEndpoints": Operation(6),
    },
    things={
        "mac": "00:00:5e:00:{number:02x}:01",
        "found_mac": "00:00:5e:00:{number:02x}:02",
        "new_mac": "00:00:5e:00:{number:02x}:03",
    },
    after=("groups",),
    fill_tenant=_fill_tenant,
)
