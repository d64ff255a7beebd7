"""Finds the secret of a packet's sender.

radiusd calls this module while the packet still waits in the listener's queue.

FreeRADIUS 3.2 stores one secret for a source address. During a rotation, the slot (port pair) of a tenant has dynamic
clients instead. radiusd calls this module for dynamic clients. The module reads a copy of the waiting packet (MSG_PEEK)
and returns the secret with which the packet was made. The result is valid for this source for a second. A packet made
with neither secret gets no response and changes nothing. So an attacker who does not know the new secret cannot switch
a NAS to the new secret (docs/adr/0015).
"""

import socket
from pathlib import Path

from nac.cellformat.replica.records import SecretRecord
from nac.cellformat.replica.store import ReplicaView
from nac.kit import clock
from nac.kit.radius_packet import MAX_PACKET_BYTES, MalformedPacket, parse_packet
from nac.kit.secrets import MasterKeyFile, Sealer, SecretsError
from radius.module import radiusd_api as radiusd
from radius.module.cell import Cell, get_cell, log_exception
from radius.module.request import packed_address
from radius.module.secret_proof import ChangedSources, KnownSecrets, find_proven_secret, has_no_proof, lacks_signature
from radius.module.settings import UNSIGNED_SUFFIX
from radius.module.udp_sockets import ListenerSockets
from radius.module.unsigned import log_unsigned

_SLOT_PREFIX = len("slot-")
_MAX_OPENED = 4096
# Names of the current and the next secret of a rotation, in the order of `KnownSecrets.secrets`.
_SECRET_NAMES = ("old", "new")


class SourceSecrets:
    def __init__(self, key_file: str) -> None:
        self._sealer = Sealer(MasterKeyFile(Path(key_file)))
        self._opened: dict[bytes, bytes] = {}

    def of(self, view: ReplicaView, number: int, source: str) -> KnownSecrets | None:
        slot = view.slot(number)
        if slot is None:
            return None
        packed = packed_address(source)
        nas = view.nas_by_address(slot.tenant, packed) if packed else None
        signs = nas is None or nas.require_message_authenticator
        if nas is not None and nas.secrets:
            return KnownSecrets(self._open(nas.secrets), nas.rotation, signs)
        return KnownSecrets(self._open(slot.secrets), slot.rotation, signs)

    def _open(self, records: tuple[SecretRecord, ...]) -> tuple[bytes, ...]:
        opened = []
        for record in records:
            secret = self._opened.get(record.sealed)
            if secret is None:
                if len(self._opened) >= _MAX_OPENED:
                    self._opened.clear()
                secret = self._opened[record.sealed] = self._sealer.open(record.sealed, record.context)
            opened.append(secret)
        return tuple(opened)


_cell: Cell
_listeners: ListenerSockets
_secrets: SourceSecrets
_changed_sources: ChangedSources


def instantiate(_: object) -> int:
    global _cell, _listeners, _secrets, _changed_sources
    _cell = get_cell()
    _listeners = ListenerSockets(_cell.settings)
    _secrets = SourceSecrets(_cell.settings.cell_key_file)
    _changed_sources = ChangedSources(Path(_cell.settings.replica_directory).parent / "changed-over")
    return radiusd.OK


def authorize(pairs: radiusd.Pairs) -> radiusd.ModuleResult:
    try:
        values = dict(pairs)
        return _find_client(int(values["Admit-Slot"][_SLOT_PREFIX:]), values["Admit-Source"], int(values["Admit-Port"]))
    except (MalformedPacket, SecretsError):
        return radiusd.NOOP
    except Exception:  # house-rule: the edge of our code; the packet is dropped, with the trace in the log
        log_exception("secret_lookup")
        return radiusd.NOOP


def _find_client(slot: int, source: str, port: int) -> radiusd.ModuleResult:
    datagram = _peek(source, port)
    if not datagram:
        return radiusd.NOOP
    packet = parse_packet(datagram)
    probe = _cell.settings.probe_secret.encode()
    if probe and find_proven_secret(packet, KnownSecrets((probe,), "", True)) == 0:
        return _client_attributes(source, probe, f"slot-{slot}", signs=True)
    with _cell.replica.begin() as view:
        known = _secrets.of(view, slot, source)
    if known is None or not known.secrets:
        return radiusd.NOOP
    if lacks_signature(packet, known):
        log_unsigned(slot, source)
        return radiusd.NOOP
    place = (slot, source)
    name = f"slot-{slot}"
    proven = find_proven_secret(packet, known)
    if proven is None:
        if known.signs or not has_no_proof(packet):
            _log_wrong_secret(slot, source)
            return radiusd.NOOP
        proven = _changed_sources.last(place, known.rotation)
    elif known.rotation:
        if not _changed_sources.admits(place, known.rotation, proven, packet.authenticator):
            return radiusd.NOOP
        name = f"{name}:{_SECRET_NAMES[proven]}:{known.rotation}"
    return _client_attributes(source, known.secrets[proven], name, signs=known.signs)


def _peek(source: str, port: int) -> bytes:
    """Copy of the packet that radiusd is about to read; b"" if no packet is visible."""
    listener = _listeners.get(source, port)
    if listener is None:
        return b""
    try:
        return listener.recv(MAX_PACKET_BYTES, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError:
        return b""


_wrong_secret_logged_at = 0


def _log_wrong_secret(slot: int, source: str) -> None:
    """Log a wrong secret. The text is radiusd's text for known clients.

    The function logs at most one line a second, as radiusd does.
    """
    global _wrong_secret_logged_at
    now = clock.epoch_seconds()
    if now != _wrong_secret_logged_at:
        _wrong_secret_logged_at = now
        radiusd.log_error(f"Received packet from {source}: Shared secret is incorrect. (from client slot-{slot})")


def _client_attributes(source: str, secret: bytes, name: str, *, signs: bool) -> radiusd.ModuleResult:
    is_six = ":" in source
    shortname = name if signs else f"{name}{UNSIGNED_SUFFIX}"
    return radiusd.UPDATED, {
        "config": (
            (f"FreeRADIUS-Client-{'IPv6' if is_six else 'IP'}-Address", ":=", source),
            ("FreeRADIUS-Client-Secret", ":=", secret.decode()),
            ("FreeRADIUS-Client-Shortname", ":=", shortname),
            ("FreeRADIUS-Client-Require-MA", ":=", "yes" if signs else "no"),
        )
    }
