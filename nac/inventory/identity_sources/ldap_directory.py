"""An LDAP directory or Active Directory as an identity source."""

import re
import secrets
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

from nac.cellformat.identity_names import UserName, fill_placeholders
from nac.inventory.identity_sources.faults import DirectoryRefused, DirectoryUnavailable, SourceFault
from nac.inventory.identity_sources.ldap import messages
from nac.inventory.identity_sources.ldap.connection import LdapConnection, LdapServer
from nac.inventory.identity_sources.ldap.filters import LdapFilter
from nac.inventory.identity_sources.ldap.messages import LdapEntry, LdapResult
from nac.inventory.identity_sources.settings import GROUP_PLACEHOLDERS, USER_PLACEHOLDERS, LdapSettings
from nac.inventory.identity_sources.source_client import MAX_GROUPS, StepLog, discard_step, filter_groups
from nac.inventory.identity_sources.verifier_messages import VerificationResult
from nac.kit.outbound.reach import OutboundReach
from nac.kit.outbound.tls import tls_context

# Minimum time in seconds between two checks that the directory rejects wrong passwords.
_TRUSTED_SECONDS = 600.0
# Filter with Active Directory's LDAP_MATCHING_RULE_IN_CHAIN. It also finds groups that contain groups of the user.
_NESTED_GROUP_FILTER = "(member:1.2.840.113556.1.4.1941:={dn})"
# The hexadecimal Win32 error code in the diagnostic message of Active Directory after a failed bind.
_AD_CODE = re.compile(r"\bdata ([0-9a-f]{2,8})\b", re.IGNORECASE)
_AD_REASONS = {
    "525": "unknown-user",
    "52e": "wrong-password",
    "530": "login-not-permitted",
    "531": "login-not-permitted",
    "532": "password-expired",
    "533": "account-disabled",
    "701": "account-expired",
    "773": "password-must-change",
    "775": "account-locked",
}
_NO_SUCH_OBJECT, _INVALID_CREDENTIALS, _CONSTRAINT, _UNWILLING = 32, 49, 19, 53
_OUT_OF_SERVICE = (51, 52)
_FIRST_VALUE = re.compile(rb"[^=]*=((?:\\.|[^,+\\])*)", re.DOTALL)
_ESCAPED = re.compile(rb"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)


class _StaleConnection(DirectoryUnavailable):
    """An idle connection failed when Admit used it again. The server may have closed the connection meanwhile."""


class LdapDirectory:
    def __init__(self, name: str, settings: LdapSettings, secret: bytes, reach: OutboundReach) -> None:
        self.settings = settings
        self._name = name
        self._secret = secret
        tls = tls_context(settings.ca_certificate)
        self._servers = [
            LdapServer(url, tls if url.startswith("ldaps:") or settings.start_tls else None, settings.start_tls, reach)
            for url in settings.urls
        ]
        self._user_filter = LdapFilter(settings.user_filter, placeholders=USER_PLACEHOLDERS)
        group_filter = _NESTED_GROUP_FILTER if settings.groups == "nested" else settings.group_filter
        self._group_filter = LdapFilter(group_filter, placeholders=GROUP_PLACEHOLDERS)
        self._closed = False
        self._own: list[LdapConnection] = []
        self._users: list[LdapConnection] = []
        self._trusted_until = 0.0

    async def verify(self, name: UserName, password: bytes, report: StepLog = discard_step) -> VerificationResult:
        try:
            return await self._verify(name, password, report)
        except _StaleConnection as exc:
            # A server can close idle connections without a message to the client, so retry with new connections.
            report(f"retrying with new connections: {exc}")
            await self._close_idle()
            return await self._verify(name, password, report)

    async def _verify(self, name: UserName, password: bytes, report: StepLog) -> VerificationResult:
        if not password or b"\0" in password:
            # RFC 4513 5.1.2: a bind without a password succeeds, but does not authenticate the user.
            return VerificationResult("wrong-password", "password is empty or contains NUL")
        if self.settings.direct_bind:
            return await self._verify_by_direct_bind(name, password, report)
        async with self._service_connection(report) as own:
            entry = await self._search_user(own, name, report)
        if entry is None:
            return VerificationResult("unknown-user", source=self._name)
        async with self._connection(self._users, report) as connection:
            refused = await self._bind_user(connection, entry.dn, password, report)
            if refused is not None:
                return refused
        async with self._service_connection(report) as own:
            return await self._identity(own, name, entry, report)

    async def close(self) -> None:
        """Close idle connections. A connection in use closes at the end of the login that uses it."""
        self._closed = True
        await self._close_idle()

    async def _close_idle(self) -> None:
        idle = [*self._own, *self._users]
        self._own.clear()
        self._users.clear()
        for connection in idle:
            await connection.end()

    async def _verify_by_direct_bind(self, name: UserName, password: bytes, report: StepLog) -> VerificationResult:
        """Bind as the user first, then search for the user's entry with the same connection."""
        async with self._connection(self._users, report) as connection:
            bind_name = fill_placeholders(self.settings.direct_bind, name.placeholders)
            refused = await self._bind_user(connection, bind_name, password, report)
            if refused is not None:
                return refused
            # `_require_rejects_unknown_user` may have bound with another name on this connection.
            if connection.bound_as != bind_name:
                await connection.bind(bind_name, password)
            entry = await self._search_user(connection, name, report)
            if entry is None:
                raise DirectoryRefused("the password is right, but the user has no entry below base_dn")
            return await self._identity(connection, name, entry, report)

    @asynccontextmanager
    async def _connection(self, idle: list[LdapConnection], report: StepLog) -> AsyncIterator[LdapConnection]:
        """Yield an idle or new connection. After the `with` block, the connection is idle again; after an error, it is
        closed."""
        reused = None
        while idle and reused is None:
            reused = idle.pop()
            if not reused.is_usable:
                await reused.end()
                reused = None
        connection = reused or await self._open(report)
        try:
            yield connection
        except DirectoryUnavailable as exc:
            await connection.end()
            if reused is None:
                raise
            raise _StaleConnection(str(exc)) from exc
        except BaseException:
            await connection.end()
            raise
        if self._closed:
            await connection.end()
        else:
            idle.append(connection)

    async def _open(self, report: StepLog) -> LdapConnection:
        troubles = []
        for server in self._servers:
            try:
                connection = await LdapConnection.open(server)
            except SourceFault as exc:
                report(f"connection failed: {exc}")
                troubles.append(exc)
            else:
                report(f"connected to {server.url}{' with StartTLS' if server.start_tls else ''}")
                return connection
        if all(isinstance(trouble, DirectoryUnavailable) for trouble in troubles):
            raise DirectoryUnavailable("; ".join(map(str, troubles)))
        raise DirectoryRefused("; ".join(map(str, troubles)))

    @asynccontextmanager
    async def _service_connection(self, report: StepLog) -> AsyncIterator[LdapConnection]:
        """Yield a connection for searches: bound as bind_dn, or anonymous if the source has no bind_dn."""
        async with self._connection(self._own, report) as connection:
            bind_dn = self.settings.bind_dn
            if bind_dn and connection.bound_as != bind_dn:
                if not self._secret:
                    raise DirectoryRefused("the source has a bind_dn, but no password for the bind_dn")
                result = await connection.bind(bind_dn, self._secret)
                if result.code != messages.SUCCESS:
                    raise _fault_from_result(f"the directory rejects Admit's account {bind_dn}", result)
                report(f"bound as {bind_dn}")
            yield connection

    async def _search_user(self, connection: LdapConnection, name: UserName, report: StepLog) -> LdapEntry | None:
        settings = self.settings
        attributes = [settings.name_attribute, *settings.attributes.values()]
        if settings.groups == "memberof":
            attributes.append("memberOf")
        entries = await self._search(
            connection, settings.base_dn, self._user_filter, name.placeholders, attributes, most=2
        )
        if len(entries) > 1:
            raise DirectoryRefused(f"more than one entry below {settings.base_dn} matches {settings.user_filter}")
        if not entries:
            report(f"no entry below {settings.base_dn} matches {settings.user_filter}")
            return None
        entry = entries[0]
        if not _is_below(entry.dn, settings.base_dn):
            raise DirectoryRefused(f"the directory returned {entry.dn!r}, which is not below {settings.base_dn}")
        report(f"entry: {entry.dn}")
        return entry

    async def _search(
        self,
        connection: LdapConnection,
        base: str,
        filter_: LdapFilter,
        values: dict[str, str],
        attributes: Sequence[str],
        *,
        most: int,
    ) -> list[LdapEntry]:
        seconds = max(1, int(self.settings.time_limit_seconds))
        entries, result = await connection.search(
            base, filter_.encode(values), attributes, size_limit=most, seconds=seconds
        )
        if result.code == messages.SIZE_LIMIT_EXCEEDED and len(entries) == most:
            return entries
        if result.code != messages.SUCCESS:
            raise _fault_from_result(f"the search below {base} failed", result)
        return entries

    async def _bind_user(
        self, connection: LdapConnection, bind_name: str, password: bytes, report: StepLog
    ) -> VerificationResult | None:
        """Bind with the user's password. Returns None if the password is correct, otherwise the result of the login."""
        result = await connection.bind(bind_name, password)
        if result.code == messages.SUCCESS:
            report(f"the password of {bind_name} is right")
            await self._require_rejects_unknown_user(connection, report)
            return None
        report(f"bind as {bind_name}: {result}")
        if result.code in _OUT_OF_SERVICE:
            raise DirectoryUnavailable(str(result))
        ad_code = _AD_CODE.search(result.text)
        if result.code == _INVALID_CREDENTIALS:
            return VerificationResult(
                _AD_REASONS.get(ad_code[1].lower() if ad_code else "", "wrong-password"), result.text, self._name
            )
        if result.code == _NO_SUCH_OBJECT:
            return VerificationResult("unknown-user", source=self._name)
        if result.code in (_CONSTRAINT, _UNWILLING):
            # Directories use these codes for locked and disabled accounts.
            return VerificationResult("account-locked", str(result), self._name)
        raise _fault_from_result("the directory does not allow users to bind", result)

    async def _require_rejects_unknown_user(self, connection: LdapConnection, report: StepLog) -> None:
        """Raise DirectoryRefused if the server accepts a random password for a user that does not exist."""
        if time.monotonic() < self._trusted_until:
            return
        nobody = f"admit-{secrets.token_hex(8)}"
        settings = self.settings
        name = (
            fill_placeholders(settings.direct_bind, {"user": nobody, "name": nobody})
            if settings.direct_bind
            else f"cn={nobody},{settings.base_dn}"
        )
        result = await connection.bind(name, secrets.token_urlsafe(24).encode())
        if result.code == messages.SUCCESS:
            raise DirectoryRefused(
                "the directory accepts any password: it accepted a random password for a user that does not exist"
            )
        report("the directory rejects a user that does not exist")
        self._trusted_until = time.monotonic() + _TRUSTED_SECONDS

    async def _identity(
        self, connection: LdapConnection, name: UserName, entry: LdapEntry, report: StepLog
    ) -> VerificationResult:
        settings = self.settings
        groups = filter_groups(await self._groups(connection, name, entry), settings.only_groups)
        report(f"groups: {', '.join(groups) or 'none'}")
        if settings.groups == "nested" and not groups and not settings.only_groups:
            report(
                "only Active Directory supports nested groups; for other directories set groups to memberof or search"
            )
        spelled = entry.texts(settings.name_attribute)
        return VerificationResult(
            source=self._name,
            name=spelled[0] if spelled else name.user,
            groups=groups,
            attributes={
                ours: values for ours, theirs in settings.attributes.items() if (values := entry.texts(theirs))
            },
        )

    async def _groups(self, connection: LdapConnection, name: UserName, entry: LdapEntry) -> Iterable[str]:
        settings = self.settings
        if settings.groups == "none":
            return []
        if settings.groups == "memberof":
            return (first_rdn_value(dn) for dn in entry.texts("memberOf"))
        entries = await self._search(
            connection,
            settings.group_base_dn or settings.base_dn,
            self._group_filter,
            name.placeholders | {"dn": entry.dn},
            [settings.group_name],
            most=MAX_GROUPS + 1,
        )
        return (text for group in entries for text in group.texts(settings.group_name))


def first_rdn_value(dn: str) -> str:
    """Return the first value of a distinguished name (RFC 4514): "staff" for "cn=staff,ou=groups,dc=example"."""
    first = _FIRST_VALUE.match(dn.encode())
    if first is None:
        return ""
    return _ESCAPED.sub(lambda found: _unescape(found[1]), first[1]).decode("utf-8", "replace")


def _unescape(pair: bytes) -> bytes:
    return bytes.fromhex(pair.decode()) if len(pair) == 2 else pair


def _is_below(dn: str, base: str) -> bool:
    def folded(name: str) -> str:
        return re.sub(r"\s*([,=+])\s*", r"\1", name.strip()).casefold()

    return folded(dn).endswith("," + folded(base))


def _fault_from_result(what: str, result: LdapResult) -> SourceFault:
    kind = DirectoryUnavailable if result.code in _OUT_OF_SERVICE else DirectoryRefused
    return kind(f"{what}: {result}")
