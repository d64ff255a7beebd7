"""First packet of a conversation: how does this device authenticate, and with what must radiusd compare it?

MAB comes as switches send it: PAP or CHAP with the MAC address as name and password, or EAP-MD5, with Service-Type
Call-Check or not, in any notation. A name that is a MAC address is never a stored user, so neither passes as the other.
"""

from pathlib import Path
from typing import NamedTuple

from nac.mac import normalise_mac
from nac.replica.records import SlotRecord, UserRecord
from nac.replica.store import ReplicaView
from nac.secrets import MasterKeyFile, Sealer
from nac.users.passwords import ARGON2ID
from radius.module.radiusd_api import Update
from radius.module.request import AccessRequest
from radius.module.settings import VERIFIER_REALM


class Credentials(NamedTuple):
    """What authorize tells radiusd: a method, control items, and a reason where the device is refused at once."""

    method: str
    control: tuple[Update, ...] = ()
    session_state: tuple[Update, ...] = ()
    reason: str = ""
    # They hold; radiusd has nothing to compare.
    verified: bool = False


_EAP = Credentials("eap")
_MAB = Credentials("mab", verified=True)
# Takes too long for a thread of radiusd: asked of the agent's verifier by proxying, which holds none (ADR 0006).
_ASK_VERIFIER = Credentials("pap", control=(("Proxy-To-Realm", ":=", VERIFIER_REALM),))


def method_asked(request: AccessRequest) -> str:
    """How the device means to authenticate, to tell of a refusal that came before anything was examined."""
    attributes = request.attributes
    if "EAP-Message" in attributes:
        return "eap"
    if normalise_mac(request.user_name):
        return "mab"
    return "pap" if "User-Password" in attributes else "chap" if "CHAP-Password" in attributes else "unknown"


def examine(
    request: AccessRequest, view: ReplicaView, slot: SlotRecord, *, now_seconds: int, open_password: "PasswordOpener"
) -> Credentials:
    attributes = request.attributes
    mac = normalise_mac(request.user_name)
    if "EAP-Message" in attributes:
        return _eap_mab(request, mac) if mac else _EAP
    if mac:
        return _plain_mab(request, mac)
    if "User-Password" in attributes:
        return _stored_user(request, view, slot, "pap", now_seconds, open_password)
    if "CHAP-Password" in attributes:
        return _stored_user(request, view, slot, "chap", now_seconds, open_password)
    return Credentials("unknown", reason="no-credentials")


def _eap_mab(request: AccessRequest, mac: str) -> Credentials:
    if request.mac and request.mac != mac:
        return Credentials("mab", reason="mac-mismatch")
    # A device with a certificate may use its MAC address as identity: it answers MD5 with a NAK that asks for TLS.
    return Credentials(
        "eap",
        control=(("EAP-Type", ":=", "MD5"),),
        session_state=(("Admit-MAB-Password", ":=", request.user_name),),
    )


def _plain_mab(request: AccessRequest, mac: str) -> Credentials:
    if request.mac and request.mac != mac:
        return Credentials("mab", reason="mac-mismatch")
    attributes = request.attributes
    if "CHAP-Password" in attributes:
        return Credentials(
            "mab", control=(("Cleartext-Password", ":=", request.user_name), ("Auth-Type", ":=", "CHAP"))
        )
    password = attributes.get("User-Password", "")
    if normalise_mac(password) != mac and not (not password and attributes.get("Service-Type") == "Call-Check"):
        return Credentials("mab", reason="wrong-password")
    return _MAB


def _stored_user(
    request: AccessRequest,
    view: ReplicaView,
    slot: SlotRecord,
    method: str,
    now_seconds: int,
    open_password: "PasswordOpener",
) -> Credentials:
    user = view.user(slot.tenant, request.user_name)
    if user is None:
        if method == "pap" and view.has_identity_sources(slot.tenant):
            return _ASK_VERIFIER
        return Credentials(method, reason="unknown-user")
    if user.disabled or (user.valid_until and user.valid_until <= now_seconds):
        return Credentials(method, reason="user-disabled")
    if method == "pap":
        if user.password_hash.startswith(ARGON2ID):
            return _ASK_VERIFIER
        return Credentials(method, control=(("PBKDF2-Password", ":=", user.password_hash), ("Auth-Type", ":=", "PAP")))
    if not user.sealed_password:
        return Credentials(method, reason="chap-not-allowed")
    password = open_password(user)
    return Credentials(method, control=(("Cleartext-Password", ":=", _quoted(password)), ("Auth-Type", ":=", "CHAP")))


def _quoted(value: str) -> str:
    """rlm_python3 reads what it is given as a double-quoted string."""
    return value.replace("\\", "\\\\")


class PasswordOpener:
    """Opens the password that CHAP needs, sealed by the agent with the cell's key."""

    def __init__(self, key_file: str) -> None:
        self._sealer = Sealer(MasterKeyFile(Path(key_file)))

    def __call__(self, user: UserRecord) -> str:
        return self._sealer.open(user.sealed_password, f"user:{user.user_id}").decode()
