"""Searches in a tenant's logs with each filter, for frequent, rare and missing values."""

from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlencode

from loadtest.api.data_set import LOST_DEVICE
from nac.kit.clock import utc_now

_MONTHS = timedelta(days=120)


@dataclass(frozen=True)
class Search:
    name: str
    path: str


def mac_of(tenant: int, device: int) -> str:
    """MAC address of a device. The first tenant has the number 1."""
    return f"02{tenant:04x}{device:06x}"


def log_searches(slug: str, tenant: int, days: int) -> list[Search]:
    now = utc_now()
    ago = min(_MONTHS, timedelta(days=days / 2))
    filters: dict[str, dict[str, object]] = {
        "newest": {},
        "newest 1,000": {"limit": 1_000},
        "a device that authenticates often": {"mac": mac_of(tenant, 3)},
        "a device that authenticates rarely": {"mac": mac_of(tenant, 19)},
        "a device last seen when the log began": {"mac": mac_of(tenant, LOST_DEVICE)},
        "a device never seen": {"mac": "02ffffffffff"},
        "a device never seen, of one month": {"mac": "02ffffffffff", "since": (now - ago).isoformat()},
        "a user that authenticates often": {"user": "user-9@example.com"},
        "a user by certificate": {"user": "device-7"},
        "a user never seen": {"user": "nobody"},
        "a NAS": {"nas": "switch-3"},
        "an unknown NAS": {"nas": "nothing"},
        "a site": {"site": "site-1"},
        "rejects": {"rejects": "true"},
        "permits": {"verdict": "permit"},
        "quarantine, without rows": {"verdict": "quarantine"},
        "a reason": {"reason": "unknown-user"},
        "a reason without rows": {"reason": "pool-exhausted"},
        "monitored, without rows": {"monitored": "true"},
        "months ago": {"until": (now - ago).isoformat()},
        "rejects of months ago": {"until": (now - ago).isoformat(), "rejects": "true"},
        "a user never seen, since months ago": {"since": (now - ago).isoformat(), "user": "nobody"},
        "before the log": {"until": (now - timedelta(days=days + 30)).isoformat()},
    }
    path = f"/v1/tenants/{slug}/decisions"
    return [Search(name, f"{path}?{urlencode(wanted)}") for name, wanted in filters.items()]


def other_lists(slug: str) -> list[Search]:
    """Requests for a tenant's other lists. The name of each search is the path of its route."""
    paths = ("sessions", "sessions?ended=true", "accounting", "coa-requests", "redecisions", "exports", "feeds")
    more = ("usage", "retention", "endpoints", "sites", "members", "roles", "tokens")
    return [Search(path, f"/v1/tenants/{slug}/{path}") for path in (*paths, *more)]
