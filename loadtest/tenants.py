"""Tenants of a benchmark: devices, a policy with 20 rules, and the VLAN of each device."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

RULES = 20
# Number of endpoints of each tenant. Target P1 requires 10 tenants with 500 to 50,000 endpoints.
TENANT_SIZES = (500, 500, 1_000, 1_000, 1_000, 2_000, 2_000, 5_000, 8_000, 50_000)
# The policy has one rule for each group of endpoints, and one rule for certificates.
GROUPS = tuple(f"group-{number:02d}" for number in range(RULES - 1))
CERTIFICATE_VLAN = "30"


@dataclass(frozen=True, slots=True)
class BenchEndpoint:
    # MAC address as 12 hex digits.
    mac: str
    group: str

    @property
    def vlan(self) -> str:
        return _vlan(self.group)


@dataclass(frozen=True, slots=True)
class BenchTenant:
    slug: str
    endpoints: Sequence[BenchEndpoint]


def _vlan(group: str) -> str:
    return str(100 + GROUPS.index(group))


def make_tenants(sizes: Sequence[int] = TENANT_SIZES) -> list[BenchTenant]:
    """Return the tenants. Each call returns equal tenants, so that runs are comparable.

    Groups have equal sizes. Therefore, on average, Admit evaluates half of the rules before a rule matches.
    """
    random = Random(20)
    numbers = iter(random.sample(range(1 << 32), sum(sizes)))
    return [
        BenchTenant(
            f"bench-{place:02d}",
            [BenchEndpoint(f"02be{next(numbers):08x}", GROUPS[index % len(GROUPS)]) for index in range(size)],
        )
        for place, size in enumerate(sizes)
    ]


def list_known_devices(tenants: Iterable[BenchTenant]) -> list[tuple[str, str]]:
    """Return MAC address and VLAN of every device, for the configuration of the peers."""
    return [(endpoint.mac, endpoint.vlan) for tenant in tenants for endpoint in tenant.endpoints]


def policy_document() -> dict[str, Any]:
    rules: list[dict[str, object]] = [
        {
            "id": group,
            "name": f"Devices of {group}",
            "when": {
                "all": [
                    {"attribute": "method", "operator": "equals", "value": "mab"},
                    {"attribute": "endpoint.group", "operator": "equals", "value": group},
                ]
            },
            "then": {"verdict": "permit", "vlan": _vlan(group)},
        }
        for group in GROUPS
    ]
    rules.append(
        {
            "id": "certificates",
            "name": "Devices with a certificate",
            "when": {"attribute": "method", "operator": "equals", "value": "eap-tls"},
            "then": {"verdict": "permit", "vlan": CERTIFICATE_VLAN},
        }
    )
    return {"pinned_denies": [], "rules": rules, "fallback": {"verdict": "deny"}}
