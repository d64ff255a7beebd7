"""Enrolment: secrets, links and SCEP."""

from tests.isolation.noun import Filler, Noun, Operation, Things, unknown_ids


def _fill_tenant(filler: Filler, things: Things) -> None:
    filler.ask("updateScepWebhook", things)
    secret = filler.ask("createEnrolmentSecret", things | {"new_name": f"secret-{things['mark']}"})
    things["secret"] = secret["id"]


NOUN = Noun(
    operations={
        "listEnrolmentSecrets": Operation(2),
        "getEnrolmentSecret": Operation(2),
        "createEnrolmentLink": Operation(8, {"common_name": "$new_name", "endpoint_mac": "$mac"}),
        "createEnrolmentSecret": Operation(10, {"kind": "est", "name": "$new_name", "endpoint_mac": "$mac"}),
        "revokeEnrolmentSecret": Operation(7),
        "getRenewalSettings": Operation(2),
        "updateRenewalSettings": Operation(8, {"keeps_key": True}),
        "getDeviceSetUp": Operation(4, query={"form": "apple"}),
        "getScep": Operation(22),
        "getScepWebhook": Operation(2),
        "updateScepWebhook": Operation(8, {"url": "https://mdm.example/$new_name"}),
        "deleteScepWebhook": Operation(7),
    },
    unknown=unknown_ids("secret"),
    after=("endpoints",),
    fill_tenant=_fill_tenant,
)
