"""Certificate authorities, also external ones."""

from cryptography.hazmat.primitives.serialization import Encoding

from nac.kit.clock import utc_now
from pki.issuance import issue_root
from pki.keys import generate_key
from pki.names import subject_name
from pki.profiles import PROFILES
from pki.serials import random_serial
from tests.isolation.noun import Filler, Noun, Operation, Things, unknown_ids


def _make_root(name: str) -> str:
    given = {"key": generate_key(), "subject": subject_name(name), "serial": random_serial()}
    return issue_root(PROFILES["root"], now=utc_now(), **given).public_bytes(Encoding.PEM).decode()


_ROOT = _make_root("Root of nobody")


def _fill_tenant(filler: Filler, things: Things) -> None:
    ask = filler.ask
    ask("updateKeyStore", things)
    things["authority"] = "issuing"
    before = {each["kind"]: each["id"] for each in ask("listAuthorities", things)["items"]}
    ask("rollOverAuthorities", things)
    things["old_authority"] = before["issuing"]
    imported = ask("importAuthorities", things | {"new_root": _make_root(things["domain"])})
    things["external_authority"] = imported["items"][0]["id"]
    things["root_key"] = ask("exportRootKey", things)["key"]


NOUN = Noun(
    operations={
        "listAuthorities": Operation(3),
        "rollOverAuthorities": Operation(23, {"root": False}),
        "getKeyStore": Operation(2),
        "updateKeyStore": Operation(9, {"store": "sealed"}),
        "exportRootKey": Operation(7, {"passphrase": "correct horse battery staple"}),
        "deleteRootKey": Operation(13),
        "importRootKey": Operation(body={"key": "$root_key", "passphrase": "correct horse battery staple"}, status=409),
        "getAuthority": Operation(3),
        "downloadAuthority": Operation(3),
        "revokeAuthority": Operation(29, {"reason": "superseded"}, path={"authority": "old_authority"}),
        "importAuthorities": Operation(14, {"files": [{"name": "root.pem", "content": "$new_root"}]}),
        "refreshAuthorities": Operation(11),
        "refreshAuthority": Operation(11, path={"authority": "external_authority"}),
        "updateAuthoritySources": Operation(
            16, {"crl_url": "http://crl.example/x.crl"}, path={"authority": "external_authority"}
        ),
        "deleteAuthority": Operation(16, path={"authority": "external_authority"}),
    },
    things={"new_root": _ROOT},
    unknown=unknown_ids("authority", "old_authority", "external_authority") | {"root_key": "none"},
    after=("certificates",),
    fill_tenant=_fill_tenant,
)
