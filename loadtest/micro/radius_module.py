"""Cost of Admit's Python module for a MAC authentication, without radiusd: `python -m loadtest.micro.radius_module`.

Prints microseconds of CPU per decision, including the journal. The replica has 50,000 endpoints and a policy of 20
rules. With --pool, each device also gets an address. The first 4,096 devices get a new address; all later devices have
an address already.

`install` replaces the Python module `radiusd`, which exists only inside radiusd. So benchmarks can call functions of
radius.module directly.
"""

import argparse
import cProfile
import json
import pstats
import sys
import tempfile
import time
import types
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path

import msgspec

from nac.cellformat.replica.records import (
    EndpointRecord,
    PolicyRecord,
    PoolLeaseRecord,
    PoolRecord,
    PoolStockRecord,
    SiteRecord,
    SlotRecord,
)
from nac.cellformat.replica.store import ReplicaWriter, WriteBatch
from nac.kit.clock import epoch_microseconds
from nac.pools.claims import allocate_entries

# rlm_rcode_t (src/include/radiusd.h of FreeRADIUS 3.2).
CODES = {"REJECT": 0, "FAIL": 1, "OK": 2, "HANDLED": 3, "NOOP": 7, "UPDATED": 8}


def install(log: Callable[[str], object]) -> None:
    """Install the replacement of the module `radiusd`. Call this function before the import of radius.module.

    The replacement calls `log` with each line for radiusd's log.
    """
    module = types.ModuleType("radiusd")
    for name, code in CODES.items():
        setattr(module, f"RLM_MODULE_{name}", code)
    module.L_ERR = 4  # type: ignore[attr-defined]
    module.radlog = lambda level, text: log(text)  # type: ignore[attr-defined]
    sys.modules["radiusd"] = module


ENDPOINTS = 50_000
RULES = 20
# Maximum number of addresses that a cell keeps ready.
READY = 4_096
_TENANT = "00000000-0000-0000-0000-000000000001"
_SITE = "00000000-0000-0000-0000-000000000002"
_POLICY = "00000000-0000-0000-0000-000000000003"
_POOL = "00000000-0000-0000-0000-000000000004"


def policy_document(rules: int) -> dict[str, object]:
    """Return a policy in which all rules compare attributes of the device. The last rule matches printers."""
    tried: list[dict[str, object]] = [
        {
            "id": f"r{number}",
            "name": f"group {number}",
            "when": {
                "all": [
                    {"attribute": "method", "operator": "equals", "value": "mab"},
                    {"attribute": "endpoint.group", "operator": "equals", "value": f"group-{number}"},
                ]
            },
            "then": {"verdict": "permit", "vlan": str(100 + number)},
        }
        for number in range(rules - 1)
    ]
    tried.append(
        {
            "id": "printers",
            "name": "printers",
            "when": {"attribute": "endpoint.group", "operator": "equals", "value": "printers"},
            "then": {"verdict": "permit", "vlan": "20"},
        }
    )
    return {"pinned_denies": [], "rules": tried, "fallback": {"verdict": "deny"}}


def _mac(number: int) -> str:
    return f"0200{number:08x}"


def _fill(root: Path, *, pool: bool) -> None:
    writer = ReplicaWriter(root / "replica", fresh=True)
    document = policy_document(RULES)
    if pool:
        document["rules"][-1]["then"]["ip_pool"] = "bench"  # type: ignore[index]
    with writer.begin() as batch:
        batch.put_slot(0, SlotRecord(1, _TENANT, "bench", "active", _SITE, "", 200, 60))
        batch.put_site(1, SiteRecord(_SITE, "main", _POLICY))
        batch.put_policy(1, PolicyRecord(_POLICY, "bench", 1, json.dumps(document).encode()))
        if pool:
            _put_pool(root, batch)
        for number in range(ENDPOINTS):
            batch.put_endpoint(1, _mac(number), EndpointRecord(_TENANT, "", "active", ("printers",), 0, {}))
    writer.close()


def _put_pool(root: Path, batch: WriteBatch) -> None:
    (root / "claims").mkdir()
    made = epoch_microseconds()
    file = f"{_POOL}_{made}.claims"
    allocate_entries(root / "claims" / file, ENDPOINTS)
    addresses = [str(ip_address("10.0.0.1") + number) for number in range(ENDPOINTS)]
    ready = tuple((number, made + 1, addresses[number]) for number in range(READY))
    batch.put_pool(1, PoolRecord(_POOL, "ipv4", "deny", file, made), PoolStockRecord("", "bench", ready))
    for number in range(READY, ENDPOINTS):
        batch.put_pool_lease(1, _POOL, _mac(number), PoolLeaseRecord(number, made, addresses[number]))


def _request(number: int) -> tuple[tuple[str, str], ...]:
    mac = "-".join(_mac(number)[place : place + 2] for place in range(0, 12, 2))
    return (
        ("Message-Authenticator", "0xefeead866ddfe1cd0a255d196b108c54"),
        ("User-Name", mac),
        ("User-Password", mac),
        ("Calling-Station-Id", mac),
        ("Called-Station-Id", "00-10-A4-23-19-C0:corp"),
        ("NAS-IP-Address", "192.0.2.1"),
        ("NAS-Identifier", "switch-1"),
        ("NAS-Port", "12"),
        ("NAS-Port-Type", "Ethernet"),
        ("NAS-Port-Id", "GigabitEthernet1/0/12"),
        ("Service-Type", "Call-Check"),
        ("Framed-MTU", "1500"),
        ("Admit-Slot", "slot_0"),
        ("Admit-Source", "127.0.0.1"),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--pool", action="store_true")
    parser.add_argument("--count", type=int, default=50_000)
    arguments = parser.parse_args()
    install(lambda line: print(line, file=sys.stderr))
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        _fill(root, pool=arguments.pool)
        _run(root, arguments.count, profile=arguments.profile)
    return 0


def _run(root: Path, count: int, *, profile: bool) -> None:
    import os

    from nac.kit.secrets import MasterKeyFile
    from radius.module.settings import ModuleSettings

    MasterKeyFile.create(root / "key")
    settings = ModuleSettings(
        str(root / "replica"),
        str(root / "journal"),
        str(root / "tls"),
        1 << 32,
        "interval",
        {},
        str(root / "key"),
        str(root / "claims"),
    )
    (root / "module.json").write_bytes(msgspec.json.encode(settings))
    os.environ["ADMIT_MODULE_SETTINGS"] = str(root / "module.json")
    from radius.module import auth

    auth.instantiate(None)
    requests = [_request(number % ENDPOINTS) for number in range(count)]
    profiler = cProfile.Profile()
    if profile:
        profiler.enable()
    spent = 0
    for request in requests:
        started = time.process_time_ns()
        code, update = auth.authorize({"request": request, "reply": None, "config": None, "session-state": None})
        spent += time.process_time_ns() - started
        if "reply" not in update:
            raise SystemExit(f"not permitted: {code} {update}")
    if profile:
        profiler.disable()
        pstats.Stats(profiler).sort_stats("tottime").print_stats(25)
    print(f"{spent / count / 1000:.2f} us for each of {count} MAC addresses by PAP")


if __name__ == "__main__":
    raise SystemExit(main())
