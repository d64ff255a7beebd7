"""Data about a live session for the checks of a request. The credentials are recorded, and all other data is
current."""

from typing import NamedTuple

from nac.cellformat.endpoint_facts import build_device_facts
from nac.cellformat.packet_values import Values
from nac.engine.admission import Refusal, Standing, get_standing
from nac.models import Site, Tenant
from nac.redecisions.current_facts import CurrentFacts, KnownEndpoint, KnownUser
from nac.redecisions.live_sessions import RecordedDecision


class CurrentPlace(NamedTuple):
    site: Site | None
    # The published document of the site's policy; None if no version is published.
    policy: object | None


class SessionAdmission:
    """Data about a session's request, as if the device sent the request now.

    `values` are the attributes that rules can use.
    """

    def __init__(
        self,
        recorded: RecordedDecision,
        values: dict[str, Values],
        place: CurrentPlace,
        current: CurrentFacts,
        now_seconds: int,
    ) -> None:
        """`values` are recorded attributes of packet and credentials, and current attributes of the NAS."""
        self.method, self.tls_version = recorded.method, recorded.tls_version
        self.place, self.values, self.now_seconds = place, values, now_seconds
        self.endpoint: KnownEndpoint | None = None
        self.standing: Standing = "unapproved"
        self._user: KnownUser | None = None
        self._recorded, self._current = recorded, current

    @property
    def tenant(self) -> Tenant:
        return self._current.tenant

    @property
    def mac(self) -> str:
        return str(next(iter(self.values.get("mac", ())), ""))

    def refuse_login(self) -> Refusal | None:
        """Return a reason if the certificate of the session is now invalid.

        Credentials other than certificates count as valid. Raises AuthorityUnclear.
        """
        if self.method != "eap-tls":
            return None
        serial, trust = self._recorded.certificate_serial, self._current.trust
        issuer = str(next(iter(self.values.get("certificate.issuer", ())), ""))
        reason = trust.refusal(issuer, serial, self.now_seconds)
        own = trust.get_own(serial)
        if own is not None and "certificate.profile" in self.values:
            self.values["certificate.profile"] = (own.profile,)
        return Refusal(reason) if reason else None

    def is_vouched_for(self) -> bool:
        return "user.source" in self.values

    def find_user(self) -> KnownUser | None:
        self._user = self._current.users.get(self._recorded.identity.casefold())
        return self._user

    def find_standing(self) -> Standing:
        self.endpoint = self._current.endpoints.get(self.mac)
        self.standing = get_standing(self.endpoint.record if self.endpoint else None, self.now_seconds)
        return self.standing

    def add_stored_values(self) -> None:
        """Add current attributes of the site, the endpoint and the tenant's own user."""
        if self.place.site is not None:
            self.values["site.name"] = (self.place.site.name,)
        if self._user is not None:
            self.values["user.name"] = (self._recorded.identity.casefold(),)
            self.values["user.group"] = self._user.groups
        known = self.standing == "approved"
        self.values["endpoint.known"] = (known,)
        if self.endpoint is not None:
            self.values |= build_device_facts(self.endpoint.record, self.now_seconds, known=known)
