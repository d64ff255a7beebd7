"""Determines the method and the credentials of a device, and how radiusd must verify the credentials.

This module examines the first packet of a conversation, and the first packet inside a tunnel.

Switches send MAB (radius.module.mab) with the MAC address as name, in any notation. Switches use PAP, CHAP, MS-CHAPv2
or EAP-MD5, with or without Service-Type Call-Check. A name that is a MAC address is never a stored user. So a user
cannot pass as a device, and a device cannot pass as a user.
"""

from pathlib import Path
from typing import NamedTuple

from nac.cellformat.identity_names import strip_realm
from nac.cellformat.replica.records import ARGON2ID, NasRecord, SlotRecord, UserRecord, nt_hash_context
from nac.cellformat.replica.store import ReplicaView
from nac.engine.admission import UNKNOWN_USER, refuse_user
from nac.kit.mac import normalise_mac
from nac.kit.pbkdf2_hashes import is_pbkdf2_hash
from nac.kit.secrets import MasterKeyFile, Sealer
from radius.module.eap_types import eap_type_label, offer_detail
from radius.module.mab import (
    challenge_auth_type,
    expected_password,
    is_expected_password,
    is_mac_password,
    password_detail,
    password_form,
)
from radius.module.radiusd_api import AttributeUpdate
from radius.module.request import AccessRequest
from radius.module.settings import VERIFIER_REALM


class Credentials(NamedTuple):
    """Result for radiusd: a method, control attributes, and a reason if the module rejects the device without a check
    by radiusd.
    """

    method: str
    control: tuple[AttributeUpdate, ...] = ()
    reason: str = ""
    # Details of the reason, for the log.
    detail: str = ""
    # Whether the module has verified the credentials, so that radiusd compares nothing.
    verified: bool = False


# Limit of decrypted NAS passwords in the cache.
MAX_OPENED_PASSWORDS = 4_096
_MAB_VERIFIED = Credentials("mab", verified=True)
_EAP_BEGUN = Credentials("eap")
# For logins without EAP: the attribute with the password, the method, and the scheme in which the password must be
# stored.
_PLAIN_SCHEMES = (
    ("User-Password", "pap", "pap"),
    ("CHAP-Password", "chap", "chap"),
    ("MS-CHAP2-Response", "mschapv2", "mschap"),
)
_TTLS_SCHEMES = (
    ("EAP-Message", "eap-ttls-mschapv2", "eap-mschap"),
    ("MS-CHAP2-Response", "eap-ttls-mschapv2", "mschap"),
    ("User-Password", "eap-ttls-pap", "pap"),
)
_MSCHAPV1_RESPONSE = "MS-CHAP-Response"
_PEAP_SCHEMES = (("EAP-Message", "peap-mschapv2", "eap-mschap"),)
_TUNNEL_SCHEMES = {"TTLS": (_TTLS_SCHEMES, "eap-ttls"), "PEAP": (_PEAP_SCHEMES, "peap")}
# RFC 2865 5.2 allows passwords of up to 128 octets. radiusd drops passwords of more than 253 octets (diameter2vp in
# rlm_eap_ttls/ttls.c of 3.2.7).
MAX_PASSWORD_OCTETS = 128
# Makes radiusd send the request to the agent's verifier, for passwords whose check would occupy a thread of radiusd too
# long (ADR 0006).
ASK_VERIFIER = (("Proxy-To-Realm", ":=", VERIFIER_REALM),)


def requested_method(request: AccessRequest) -> str:
    """Method of a request that is rejected before its credentials are examined."""
    attributes = request.attributes
    if "EAP-Message" in attributes:
        return "eap"
    if _MSCHAPV1_RESPONSE in attributes:
        return "mschapv1"
    if normalise_mac(request.user_name):
        return "mab"
    return next((method for attribute, method, _ in _PLAIN_SCHEMES if attribute in attributes), "unknown")


def examine_first_packet(
    request: AccessRequest,
    view: ReplicaView,
    slot: SlotRecord,
    nas: NasRecord | None,
    *,
    now_seconds: int,
    open_password: "PasswordOpener",
) -> Credentials:
    """Examine the first packet of a conversation. With EAP, the first packet contains only a name."""
    attributes = request.attributes
    if "EAP-Message" in attributes:
        return _EAP_BEGUN
    if _MSCHAPV1_RESPONSE in attributes:
        # Admit does not support MS-CHAPv1. rlm_mschap would check this response even if the request also has an
        # MS-CHAPv2 response.
        return Credentials("mschapv1", reason="method-not-offered")
    mac = normalise_mac(request.user_name)
    if mac:
        if "mab" not in slot.methods:
            return Credentials("mab", reason="method-not-offered")
        return _mab_credentials(request, mac, slot, nas, open_password)
    for attribute, method, scheme in _PLAIN_SCHEMES:
        if attribute in attributes:
            return _user_credentials(request, view, slot, method, scheme, now_seconds, open_password)
    return Credentials("unknown", reason="no-credentials")


def examine_tunnel_packet(
    tunnel: str,
    request: AccessRequest,
    view: ReplicaView,
    slot: SlotRecord,
    *,
    tried: str,
    now_seconds: int,
    open_password: "PasswordOpener",
) -> Credentials:
    """Examine the first packet inside a TTLS or PEAP tunnel.

    `tried` names a login method that the device tried and that the tenant does not offer inside the tunnel. If the
    device tried no such method, `tried` is "".
    """
    known, unfinished = _TUNNEL_SCHEMES[tunnel]
    for attribute, method, scheme in known:
        if attribute in request.attributes:
            octets = len(request.attributes[attribute].encode()) if scheme == "pap" else 0
            if octets > MAX_PASSWORD_OCTETS and request.is_filtered:
                # Escapes may have made the password longer. No stored password has escapes, so the password is wrong.
                return Credentials(method, reason="wrong-password")
            if octets > MAX_PASSWORD_OCTETS:
                detail = f"the password has {octets} octets, the maximum of RADIUS is {MAX_PASSWORD_OCTETS}"
                return Credentials(method, reason="password-not-carried", detail=detail)
            return _user_credentials(request, view, slot, method, scheme, now_seconds, open_password)
    if tried:
        detail = offer_detail(slot.methods, f"{tried} inside {eap_type_label(tunnel)}")
        return Credentials(unfinished, reason="method-not-offered", detail=detail)
    detail = "the tunnel has no password, or a password that is too long"
    return Credentials(unfinished, reason="password-not-carried", detail=detail)


def _mab_credentials(
    request: AccessRequest, mac: str, slot: SlotRecord, nas: NasRecord | None, open_password: "PasswordOpener"
) -> Credentials:
    if request.mac and request.mac != mac:
        return Credentials("mab", reason="mac-mismatch")
    auth_type = challenge_auth_type(request)
    if not auth_type and is_mac_password(request, mac, nas):
        return _MAB_VERIFIED
    expected = expected_password(request, slot, nas, open_password.open_text)
    if expected is None:
        return Credentials(
            "mab", reason="wrong-mab-password", detail=f"{password_detail(nas)}, but this password is not stored"
        )
    if auth_type:
        return Credentials(
            "mab", (("Cleartext-Password", ":=", escape_quoted(expected)), ("Auth-Type", ":=", auth_type))
        )
    if password_form(nas) != "mac" and is_expected_password(request, expected):
        return _MAB_VERIFIED
    return Credentials("mab", reason="wrong-mab-password", detail=password_detail(nas))


def _user_credentials(
    request: AccessRequest,
    view: ReplicaView,
    slot: SlotRecord,
    method: str,
    scheme: str,
    now_seconds: int,
    open_password: "PasswordOpener",
) -> Credentials:
    if method not in slot.methods:
        return Credentials(method, reason="method-not-offered")
    name = strip_realm(request.user_name, slot.realms)
    # A MAC address is the name of a device, not of a user, and such a name is no secret.
    user = None if normalise_mac(name) else view.user(slot.tenant, name)
    if user is None and view.has_identity_sources(slot.tenant):
        if scheme == "pap":
            return Credentials(method, ASK_VERIFIER)
        return Credentials(method, reason="directory-needs-pap")
    refusal = refuse_user(user, now_seconds)
    if refusal is not None or user is None:
        return Credentials(method, reason=(refusal or UNKNOWN_USER).reason)
    if scheme == "pap":
        if user.password_hash.startswith(ARGON2ID):
            return Credentials(method, ASK_VERIFIER)
        # Checked again, although only PBKDF2 hashes are sent to the cell: a slow hash would block a thread of radiusd.
        if not is_pbkdf2_hash(user.password_hash):
            return Credentials(method, reason="wrong-password")
        return Credentials(method, (("PBKDF2-Password", ":=", user.password_hash), ("Auth-Type", ":=", "PAP")))
    if scheme == "chap":
        if not user.sealed_password:
            return Credentials(method, reason="chap-not-allowed")
        return Credentials(
            method, (("Cleartext-Password", ":=", escape_quoted(open_password(user))), ("Auth-Type", ":=", "CHAP"))
        )
    if not user.sealed_nt_hash:
        return Credentials(method, reason="mschap-not-allowed")
    how = ("EAP-Type", ":=", "MSCHAPv2") if scheme == "eap-mschap" else ("Auth-Type", ":=", "MS-CHAP")
    return Credentials(method, (("NT-Password", ":=", f"0x{open_password.nt_hash(user)}"), how))


def escape_quoted(value: str) -> str:
    """Escape a value for rlm_python3, which reads values as double-quoted strings."""
    return value.replace("\\", "\\\\")


class PasswordOpener:
    """Decrypts passwords for CHAP, MS-CHAP and MAB, which the agent encrypted with the cell's key."""

    def __init__(self, key_file: str) -> None:
        self._sealer = Sealer(MasterKeyFile(Path(key_file)))
        # Cache of the NASes' passwords, which each request of the NAS needs.
        self._texts: dict[tuple[bytes, str], str] = {}

    def __call__(self, user: UserRecord) -> str:
        return self._sealer.open(user.sealed_password, f"user:{user.user_id}").decode()

    def nt_hash(self, user: UserRecord) -> str:
        """NT hash of the user as 32 hex digits."""
        return self._sealer.open(user.sealed_nt_hash, nt_hash_context(user.user_id)).decode()

    def open_text(self, sealed: bytes, context: str) -> str:
        """Decrypt a NAS's password, with a cache, because all requests of the NAS need it."""
        text = self._texts.get((sealed, context))
        if text is None:
            if len(self._texts) >= MAX_OPENED_PASSWORDS:
                self._texts.clear()
            text = self._texts[sealed, context] = self._sealer.open(sealed, context).decode()
        return text
