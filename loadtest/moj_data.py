"""The data set of the load test of NACS by the British Ministry of Justice in 2021, converted to a tenant of Admit.

The data set has 1,750 sites with 10 NASes each, and 2,750 policies. Several sites use the same policy. A site has 5
policies in order of priority, and a fallback with one response. A policy has 5 rules, which must all match, and 5
responses.

A policy of NACS corresponds to a rule of Admit. Therefore each site gets one Admit policy with five rules and the
fallback. A rule has five comparisons under `all`, and five reply attributes. Three of the attributes set the VLAN.
Sites share no policies in Admit, because no two sites have the same five policies in NACS. The result is 1,750 policies
with 8,750 rules, 43,750 comparisons and 43,750 reply attributes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count
from random import Random

from loadtest.workloads import BenchNas

SITES, NASES_PER_SITE = 1_750, 10
POLICIES, POLICIES_PER_SITE = 2_750, 5
_FIRST_PORT = 50_000
_MACS = 0x02_4D_00_00_00_00


@dataclass(frozen=True, slots=True)
class MojNas:
    """A switch, and the known device at the switch.

    The NAS-Port of the switch determines which NACS policy of the site matches.
    """

    identifier: str
    address: str
    mac: str
    policy: int

    @property
    def nas(self) -> BenchNas:
        return BenchNas(self.identifier, self.address, _port(self.policy))

    @property
    def vlan(self) -> str:
        return vlan_of(self.policy)


@dataclass(frozen=True)
class MojSite:
    number: int
    # Numbers of the site's NACS policies, in order of priority.
    policies: Sequence[int]

    @property
    def slug(self) -> str:
        return f"site-{self.number:04d}"

    @cached_property
    def nases(self) -> Sequence[MojNas]:
        first = self.number * NASES_PER_SITE
        return [
            MojNas(
                f"{self.slug}-switch-{place}",
                f"10.{100 + (first + place) // 62500}.{(first + place) // 250 % 250}.{(first + place) % 250 + 1}",
                f"{_MACS + first + place:012x}",
                self.policies[place % POLICIES_PER_SITE],
            )
            for place in range(NASES_PER_SITE)
        ]

    def document(self) -> dict[str, object]:
        return {
            # NACS rejects unknown MAC addresses before any policy.
            "pinned_denies": [{"id": "unknown-mac", "name": "MAC addresses without an approval", "when": _UNKNOWN}],
            "rules": [_rule(number) for number in self.policies],
            "fallback": {
                "verdict": "permit",
                "reply": [{"attribute": "Reply-Message", "value": f"Fallback of {self.slug}"}],
            },
        }


def make_sites(sites: int = SITES) -> list[MojSite]:
    """Return the sites. Each call returns equal sites. With enough sites, each NACS policy has at least one site."""
    random = Random(2021)
    numbers = _shuffled_policies(random)
    return [MojSite(number, _pick_policies(numbers, random)) for number in range(sites)]


def vlan_of(policy: int) -> str:
    return str(2 + policy % 4_000)


def _shuffled_policies(random: Random) -> Iterator[int]:
    """Yield all policy numbers in a random order, then again in another random order, without end."""
    return chain.from_iterable(random.sample(range(POLICIES), POLICIES) for _ in count())


def _pick_policies(numbers: Iterator[int], random: Random) -> Sequence[int]:
    taken = dict.fromkeys(next(numbers) for _ in range(POLICIES_PER_SITE))
    while len(taken) < POLICIES_PER_SITE:
        taken[random.randrange(POLICIES)] = None
    return tuple(taken)


def _port(policy: int) -> int:
    return _FIRST_PORT + policy


def _is(attribute: str, operator: str, value: object) -> dict[str, object]:
    return {"attribute": attribute, "operator": operator, "value": value}


_UNKNOWN = {"all": [_is("method", "equals", "mab"), _is("endpoint.known", "equals", False)]}


def _rule(policy: int) -> dict[str, object]:
    """Return the rule of Admit for a policy of NACS.

    Only the last comparison differs between rules, which is the most expensive case.
    """
    rules = [
        _is("method", "one_of", ["mab", "eap-tls"]),
        _is("nas.port_type", "equals", "Ethernet"),
        _is("radius.Called-Station-Id", "contains", "1A-1E"),
        _is("radius.NAS-Port-Id", "contains", "GigabitEthernet"),
        _is("radius.NAS-Port", "equals", str(_port(policy))),
    ]
    responses = [
        {"attribute": "Session-Timeout", "value": str(3_600 + policy)},
        {"attribute": "Filter-Id", "value": f"policy-{policy:04d}"},
    ]
    then = {"verdict": "permit", "vlan": vlan_of(policy), "reply": responses}
    return {"id": f"policy-{policy:04d}", "name": f"Policy {policy}", "when": {"all": rules}, "then": then}
