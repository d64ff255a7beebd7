"""Invalid fields of each kind of object. The response names the field, and the request changes nothing."""

from typing import Any, Final

import httpx
import pytest

from tests.api.v1.conftest import request_pem
from tests.api.v1.responses import error_paths

TENANT = "/v1/tenants/alpha"
_MAC, _RANDOM = "00:00:5e:00:53:01", "02:00:00:00:00:01"
_POOL = ["10.1.0.0/29"]
_HOOK: Final = {"kind": "webhook", "name": "siem", "settings": {"url": "https://siem.example/"}}
_NOT_A_CSR = "-----BEGIN CERTIFICATE REQUEST-----\n!\n-----END CERTIFICATE REQUEST-----\n"


def _feed(**settings: object) -> dict[str, Any]:
    return _HOOK | {"settings": settings}


# For each operation: bodies, and the path of the error.
INVALID: Final[dict[str, tuple[tuple[Any, str], ...]]] = {
    "POST endpoints": (
        ({}, "mac"),
        ({"mac": "xyz"}, "mac"),
        ({"mac": _RANDOM}, "mac"),
        ({"mac": _MAC, "name": "x" * 201}, "name"),
        ({"mac": _MAC, "valid_until": "2020-01-01T00:00:00Z"}, "valid_until"),
        ({"mac": _MAC, "valid_until": "2040-01-01T00:00:00"}, "valid_until"),
        ({"mac": _MAC, "groups": ["unheard-of"]}, "groups"),
        ([], "body"),
    ),
    "POST endpoint-groups": (({"name": "x", "rule": {"attribute": "no.such", "operator": "is"}}, "rule"),),
    "POST nases": (
        ({"name": "x", "address": "192.0.2.0/24"}, "address"),
        ({"name": "x", "identifier": "i", "site": "nowhere"}, "site"),
        ({"name": "x", "identifier": "i", "colour": 1}, "colour"),
        # Words of API paths.
        ({"name": "vendors", "identifier": "i"}, "name"),
        ({"name": " bulk ", "identifier": "i"}, "name"),
    ),
    "POST users": (({"name": "Bulk", "password": "a long password"}, "name"),),
    "POST pools": (
        ({"name": "x", "ranges": []}, "ranges"),
        ({"name": "x", "ranges": ["10.0.0.0/8"]}, "ranges"),
        ({"name": "x", "ranges": _POOL, "kind": "ipv6"}, "ranges"),
        ({"name": "leases", "ranges": _POOL}, "name"),
        ({"name": "X Y", "ranges": _POOL}, "name"),
        ({"name": "x", "ranges": _POOL, "stock": 0}, "stock"),
    ),
    "PATCH sites/main": (
        ({"monitor": True, "time_zone": "Mars/Olympus"}, "time_zone"),
        ({"monitor": True, "fallback": {"verdict": "perhaps"}}, "fallback.verdict"),
        ({"monitor": True, "policy": "unheard-of"}, "policy"),
        ({"monitor": "perhaps"}, "monitor"),
    ),
    "PATCH ": (
        *(
            ({"name": "Beta", "realms": ["corp", wrong]}, "realms")
            for wrong in ("", "a b", "CORP\\", "@corp.example", "a,b", "bell\a")
        ),
        ({"name": "Beta", "realms": ["corp", "x" * 254]}, "realms[1]"),
        ({"name": "Beta", "realms": [f"r{number}" for number in range(51)]}, "realms"),
        ({"name": "Beta", "silent_days": 61}, "silent_days"),
        ({"name": "Beta", "methods": ["telepathy"]}, "methods"),
    ),
    "POST certificates": (
        ({}, "name"),
        ({"name": "x" * 65}, "certificate"),
        ({"name": "x", "profile": "eap-server"}, "profile"),
        ({"name": "not a host", "profile": "radsec-server"}, "certificate"),
        ({"name": "x", "names": ["dns:x"] * 21}, "names"),
        ({"name": "x", "csr": _NOT_A_CSR}, "certificate"),
        ({"name": "x", "csr": request_pem() * 100}, "certificate"),
        ({"name": "x", "csr": "A" * 49_000}, "certificate"),
        ({"name": "x", "csr": request_pem(), "pkcs12": {}}, "pkcs12"),
        ({"name": "x", "pkcs12": {"password": "short"}}, "pkcs12.password"),
        ({"name": "x", "endpoint": "00:00:5e:00:53:99"}, "endpoint"),
        ({"name": "x", "endpoint": "\0"}, "body"),
    ),
    "POST certificates/revoke-all": (({}, "endpoint"), ({"endpoint": _MAC, "user": "anna"}, "endpoint")),
    "PUT certificate-profiles/eap-client-device": (
        ({"validity_days": 36_000}, "profile"),
        ({"key": "rsa-512"}, "key"),
    ),
    "PUT authorities/key-store": (({"store": "cloud"}, "store"),),
    "POST authorities/rollover": (({"present_from": "2099-01-01T00:00:00Z"}, "present_from"),),
    "POST server-certificates": (
        ({"names": []}, "names"),
        ({"names": ["not a host"]}, "certificate"),
        ({"names": ["x" * 300]}, "names[0]"),
    ),
    "POST enrolment-links": (
        ({}, "common_name"),
        ({"common_name": "x", "life_seconds": 400 * 86_400}, "life_seconds"),
        ({"common_name": "x", "ssid": "x" * 33}, "ssid"),
        ({"common_name": "\0"}, "body"),
    ),
    "POST enrolment-secrets": (
        ({"uses": 0}, "uses"),
        # A secret for one certificate sets its name, or allows any name.
        ({"kind": "est"}, "common_name"),
        ({"kind": "scep"}, "common_name"),
        ({"common_name": "x", "any_name": True}, "any_name"),
        ({"kind": "scep", "common_name": "x", "any_name": True}, "any_name"),
        ({"name": "Not a slug", "uses": 5}, "name"),
        ({"endpoint_mac": "00:00:5e:00:53:99"}, "endpoint_mac"),
        ({"owner": "\n", "uses": 5}, "owner"),
    ),
    "PUT scep/webhook": (
        ({"url": "http://mdm.acme.example"}, "webhook"),
        ({"url": "https://x", "networks": ["x"]}, "webhook"),
        ({"url": "https://x", "ca_certificate": "x"}, "webhook"),
        ({"url": "https://x", "timeout_seconds": 60}, "timeout_seconds"),
    ),
    "POST feeds": (
        (_HOOK | {"kind": "pigeon"}, "kind"),
        (_HOOK | {"name": "No Slug"}, "name"),
        (_feed(), "settings.url"),
        (_feed(url="http://siem.example/"), "url"),
        (_feed(url="https://siem.example/", host="x"), "settings.host"),
        (_feed(url="https://siem.example/", headers={"Host": "other"}), "headers"),
        (_feed(url="https://siem.example/", batch=501), "settings.batch"),
    ),
    "POST coa-requests": (
        ({"kind": "disconnect"}, "session"),
        ({"kind": "explode", "mac": _MAC}, "kind"),
        ({"kind": "change", "mac": _MAC}, "attributes"),
        ({"kind": "bounce", "mac": _MAC, "attributes": [{"attribute": "x", "value": "y"}]}, "attributes"),
        ({"kind": "bounce", "session": 2**62}, "session"),
    ),
    "PATCH redecisions/settings": (({"every_minutes": 3}, "every_minutes"),),
    "POST radius-secret/rotation": (
        ({"hours": 0}, "hours"),
        ({"hours": 721}, "hours"),
        ({"secret": "short"}, "secret"),
        ({"nas": "none"}, "nas"),
    ),
    "PATCH retention/auth": (
        *(({"days": days}, "days") for days in (None, 0, 1, "many")),
        ({"bytes": 5}, "bytes"),
        ({"export": "pdf"}, "export"),
    ),
    "PATCH retention/coa": (({"export": "csv"}, "export"),),
    "POST exports": tuple(
        ({"log": "auth", "since": "2026-01-01T00:00:00Z"} | wrong, place)
        for wrong, place in (
            ({"log": "audit"}, "log"),
            ({"since": "2040-01-01T00:00:00Z"}, "until"),
            ({"since": "yesterday"}, "since"),
            ({"format": "pdf"}, "format"),
        )
    ),
}


@pytest.mark.usefixtures("alpha")
def test_invalid_field_is_named_and_changes_nothing(api: httpx.Client) -> None:
    wrong = []
    for operation, bodies in INVALID.items():
        method, _, noun = operation.partition(" ")
        path = f"{TENANT}/{noun}".rstrip("/")
        before = api.get(path).json()
        for body, place in bodies:
            answer = api.request(method, path, json=body)
            if answer.status_code != 422 or place not in error_paths(answer):
                wrong.append((operation, place, answer.status_code, answer.text))
        assert api.get(path).json() == before, operation
    assert not wrong, "\n".join(map(str, wrong))


def test_reserved_path_word_is_rejected_in_bulk_and_renames(api: httpx.Client) -> None:
    for noun, made in (
        ("nases", {"name": "vendors", "identifier": "i"}),
        ("users", {"name": "bulk"} | {"password": "x" * 12}),
    ):
        many = api.post(f"{TENANT}/{noun}/bulk", json={"operation": "put", "items": [made]})
        assert (many.status_code, "paths" in many.text) == (422, True), many.text
    for noun, made, word in (
        ("nases", {"name": "core", "identifier": "sw-1"}, "vendors"),
        ("pools", {"name": "core", "ranges": _POOL}, "leases"),
    ):
        assert api.post(f"{TENANT}/{noun}", json=made).status_code == 201
        refused = api.patch(f"{TENANT}/{noun}/core", json={"name": word})
        assert (refused.status_code, refused.json()["place"]) == (422, "name")
