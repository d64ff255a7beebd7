"""Open EAP conversations.

If a slot (port pair) has too many conversations, this module selects a conversation to end.

rlm_eap 3.2.7 keeps an unfinished conversation for 30 s after its last packet. rlm_eap rejects new conversations when
its table is full, and the option `dedup_key` of rlm_eap has no effect. So one device could block a tenant with 34
unfinished handshakes a second. A packet every 29 s in each of 1,000 conversations would also block the tenant.

The module counts conversations per slot. When the table fills, the module ends the oldest conversation of the NAS with
the most conversations. The module also ends an earlier conversation of the same device at the same NAS. To end a
conversation, the module sends an EAP-NAK that proposes nothing (RFC 3748 5.3.1) to radiusd's own status port. rlm_eap
then frees the 330 kB of the conversation immediately.
"""

import os
import socket
from collections import OrderedDict
from dataclasses import dataclass

from nac.kit.radius_packet import (
    EAP_MESSAGE,
    NAS_IDENTIFIER,
    STATE,
    STATUS_SERVER,
    encode_attribute,
    make_access_request,
)

# Must equal timer_expire in radius/raddb/templates/eap.
LIFETIME_MICROSECONDS = 30_000_000
# Shares of the maximum number of conversations. Above the first share, the module records challenges; above the second
# share, the module ends conversations.
_WATCH_SHARE, _FULL_SHARE = 0.25, 0.75
# Limit of ended conversations that are remembered, because their devices may still answer.
_MAX_ENDED = 1_000

# EAP-Response with NAK and no requested type. %c stands for the identifier.
_NAK = b"\x02%c\x00\x06\x03\x00"


@dataclass(slots=True)
class Conversation:
    number: int
    # Source address of the NAS, and the identifier or address that it reports.
    nas: tuple[str, str]
    # 12 hex digits; "" if unknown.
    mac: str
    # Time of the last recorded packet in epoch microseconds.
    seen: int
    # State by which rlm_eap finds the conversation; b"" while unknown.
    state: bytes = b""
    identifier: int = 0


class Conversations:
    def __init__(self, most: int) -> None:
        self._most = most
        self._watch_from, self._full_from = int(most * _WATCH_SHARE), int(most * _FULL_SHARE)
        # Conversations by number. The conversation with the oldest last packet comes first.
        self._open: OrderedDict[int, Conversation] = OrderedDict()
        # `_by_nas` has the conversations of each NAS, oldest first. `_by_station` has the newest conversation of each
        # device at each NAS, so a device with a false MAC address cannot end a conversation at another NAS.
        self._by_nas: dict[tuple[str, str], OrderedDict[int, Conversation]] = {}
        self._by_station: dict[tuple[tuple[str, str], str], Conversation] = {}
        self._ended: OrderedDict[int, None] = OrderedDict()
        self._last = 0

    def __len__(self) -> int:
        return len(self._open)

    @property
    def is_watch_level_reached(self) -> bool:
        """Whether so many conversations are open that the module must record challenges.

        The module can end a conversation only if its last challenge is recorded.
        """
        return len(self._open) >= self._watch_from

    @property
    def is_limit_reached(self) -> bool:
        return len(self._open) >= self._full_from

    def begin(self, nas: tuple[str, str], mac: str, at: int) -> tuple[int, Conversation | None]:
        """Add a conversation. Returns the number of the new conversation.

        If another conversation must end to make room, also returns that conversation.
        """
        self._expire(at)
        if len(self._open) >= self._most:
            # rlm_eap rejects conversations above this number.
            self.close(next(iter(self._open)))
        ended = self._find_one_to_end(nas, mac)
        if ended is not None:
            self.close(ended.number)
            self._ended[ended.number] = None
            if len(self._ended) > _MAX_ENDED:
                self._ended.popitem(last=False)
        self._last += 1
        begun = Conversation(self._last, nas, mac, at)
        self._open[begun.number] = begun
        of_nas = self._by_nas.get(nas)
        if of_nas is None:
            of_nas = self._by_nas[nas] = OrderedDict()
        of_nas[begun.number] = begun
        if mac:
            self._by_station[nas, mac] = begun
        return begun.number, ended

    def note(self, number: int, state: bytes, identifier: int, at: int) -> None:
        """Record State and identifier of the last challenge, and extend the lifetime."""
        noted = self._open.get(number)
        if noted is not None:
            noted.state, noted.identifier, noted.seen = state, identifier, at
            self._open.move_to_end(number)

    def close(self, number: int) -> None:
        closed = self._open.pop(number, None)
        if closed is None:
            return
        of_nas = self._by_nas[closed.nas]
        del of_nas[number]
        if not of_nas:
            del self._by_nas[closed.nas]
        if self._by_station.get((closed.nas, closed.mac)) is closed:
            del self._by_station[closed.nas, closed.mac]

    def was_ended(self, number: int) -> bool:
        """Whether the module ended the conversation to make room. False if the device ended the conversation."""
        return number in self._ended

    def _find_one_to_end(self, nas: tuple[str, str], mac: str) -> Conversation | None:
        if not self.is_watch_level_reached:
            return None
        earlier = self._by_station.get((nas, mac)) if mac else None
        if earlier is not None and earlier.state:
            return earlier
        if not self.is_limit_reached:
            return None
        largest = max(self._by_nas.values(), key=len)
        return next((each for each in largest.values() if each.state), None)

    def _expire(self, at: int) -> None:
        while self._open:
            oldest = next(iter(self._open.values()))
            if 0 <= at - oldest.seen < LIFETIME_MICROSECONDS:
                return
            self.close(oldest.number)


class ConversationEnder:
    """Makes rlm_eap free a conversation, by a packet to `server status` (radius/raddb/radiusd.conf)."""

    def __init__(self, port: int, secret: str) -> None:
        self._secret = secret.encode()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        # Responses are not read. The kernel drops responses that do not fit into the buffer.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)
        self._address = ("127.0.0.1", port)

    def end(self, slot: int, conversation: Conversation) -> bool:
        """Send the packet. Returns whether the packet was sent; otherwise the conversation expires after its
        lifetime."""
        attributes = (
            encode_attribute(NAS_IDENTIFIER, b"slot_%d" % slot)
            + encode_attribute(STATE, conversation.state)
            + encode_attribute(EAP_MESSAGE, _NAK % conversation.identifier)
        )
        datagram = make_access_request(
            conversation.number & 0xFF, os.urandom(16), attributes, self._secret, code=STATUS_SERVER
        )
        try:
            self._socket.sendto(datagram, self._address)
        except OSError:
            return False
        return True

    def close(self) -> None:
        self._socket.close()
