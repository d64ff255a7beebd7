"""Short names of the client certificate profiles."""

from nac.certificates.issuance import ClientProfile

CLIENT_PROFILES: dict[str, ClientProfile] = {
    "device": "eap-client-device",
    "user": "eap-client-user",
    "nas": "radsec-nas",
}
