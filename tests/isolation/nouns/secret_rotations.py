"""Rotations of the RADIUS secret."""

from tests.isolation.noun import Filler, Noun, Operation, Things


def _fill_tenant(filler: Filler, things: Things) -> None:
    filler.ask("startSecretRotation", things)


NOUN = Noun(
    operations={
        "startSecretRotation": Operation(body={"hours": 24}, status=409),
        "getSecretRotation": Operation(3),
        "listSecretRotationNases": Operation(4),
        "finishSecretRotation": Operation(16, {}),
        "cancelSecretRotation": Operation(13, {}),
        "revealRadiusSecret": Operation(12, {"snippet": "cisco-iosxe-ibns2", "site": "$site"}),
    },
    fill_tenant=_fill_tenant,
)
