"""Profiles of certificates that devices, people and NASes are given, as commands name them."""

from nac.certificates.issuance import ClientProfile

CLIENT_PROFILES: dict[str, ClientProfile] = {
    "device": "eap-client-device",
    "user": "eap-client-user",
    "nas": "radsec-nas",
}
