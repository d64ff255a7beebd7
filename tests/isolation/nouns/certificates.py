"""Certificates and their profiles."""

from tests.isolation.noun import Filler, Noun, Operation, Things


def _fill_tenant(filler: Filler, things: Things) -> None:
    ask = filler.ask
    ask("updateCertificateProfile", things)
    for thing, name in (("serial", "cert"), ("suspended_serial", "idle")):
        issued = ask("issueCertificate", things | {"new_name": f"{name}-{things['mark']}"})
        things[thing] = issued["certificate"]["serial"]
    ask("suspendCertificate", things | {"serial": things["suspended_serial"]})
    things["server_serial"] = ask("issueServerCertificate", things)["certificate"]["serial"]


NOUN = Noun(
    operations={
        "listCertificates": Operation(2),
        "issueCertificate": Operation(
            16,
            {
                "name": "$new_name",
                "profile": "eap-client-device",
                "endpoint": "$mac",
                "pkcs12": {"password": "hush hush hush"},
            },
        ),
        "revokeCertificatesOfHolder": Operation(13, {"endpoint": "$mac"}),
        "suspendCertificatesOfHolder": Operation(13, {"endpoint": "$mac"}),
        "reinstateCertificatesOfHolder": Operation(12, {"endpoint": "$mac"}),
        "getCertificate": Operation(5),
        "downloadCertificate": Operation(4),
        "renewCertificate": Operation(22, {"pkcs12": {"password": "hush hush hush"}}),
        "revokeCertificate": Operation(16, {"reason": "superseded"}),
        "suspendCertificate": Operation(16),
        "reinstateCertificate": Operation(16, path={"serial": "suspended_serial"}),
        "listCertificateProfiles": Operation(2),
        "getCertificateProfile": Operation(2, path={"name": "profile"}),
        "updateCertificateProfile": Operation(9, {"validity_days": 30}, path={"name": "profile"}),
        "listExpiringCertificates": Operation(2),
        "issueServerCertificate": Operation(17, {"names": ["radius.$domain"]}),
        "presentServerCertificate": Operation(19, path={"serial": "server_serial"}),
    },
    things={"profile": "eap-client-device"},
    unknown=dict.fromkeys(("serial", "suspended_serial", "server_serial"), "7f" * 16),
    after=("endpoints",),
    fill_tenant=_fill_tenant,
)
