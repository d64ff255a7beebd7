"""Facts of a simulated request for the admission ladder.

A simulation presumes whatever the request does not say: credentials that hold, an offered method, an existing user. A
request that states `endpoint.known` or the user's groups does not depend on the stored endpoint or user.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from nac.engine.admission import Refusal, Standing, StoredUser
from nac.models import Tenant
from nac.policies.facts import FactValues, StoredFacts

_STATED_USER = ("user.group", "user.source")


class PresumedTerms(NamedTuple):
    """What the tenant accepts."""

    status: str
    methods: Collection[str]
    tls_versions: Collection[str]


class SimulatedPlace(NamedTuple):
    site: object | None
    # A policy document.
    policy: object | None


class SimulatedAdmission:
    def __init__(
        self,
        tenant: Tenant,
        place: SimulatedPlace,
        values: Mapping[str, FactValues],
        stated: Collection[str],
        stored: StoredFacts,
        now_seconds: int,
    ) -> None:
        """`values` are all attributes, `stated` the names of those in the request."""
        self.method = str(next(iter(values.get("method", ())), ""))
        self.tls_version = str(next(iter(values.get("tls.version", ())), "")) or tenant.tls_versions[0]
        self.tenant = PresumedTerms(tenant.status, tenant.methods if self.method else ("",), tenant.tls_versions)
        self.place, self.now_seconds = place, now_seconds
        self._values, self._stated, self._stored = values, stated, stored

    @property
    def has_mac(self) -> bool:
        return bool(self._values.get("mac"))

    def refuse_login(self) -> Refusal | None:
        return None

    def is_vouched_for(self) -> bool:
        """Whether a directory may know the user, or the request states what is known about it."""
        return not self._stored.has_user_facts or any(name in self._stated for name in _STATED_USER)

    def find_user(self) -> StoredUser | None:
        return self._stored.user

    def find_standing(self) -> Standing:
        if "endpoint.known" in self._stated:
            return "approved" if True in self._values["endpoint.known"] else "unapproved"
        return self._stored.standing
