"""Converts journal records to rows for COPY (text format, tab-separated). Removes values that PostgreSQL cannot store.

If an optional value is absent, the record contains "". COPY reads "" as NULL, and for text columns the INSERT turns
NULL into ''.
"""

import socket
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

import msgspec
import psycopg

from nac.cellformat.journal.records import AuthRecord, JournalRecord
from nac.cellformat.packet_values import Values

# All values of a RADIUS packet (4,096 bytes) fit into their columns, so only larger records are checked.
LARGE_PAYLOAD_BYTES = 32 << 10
MAX_TEXT_CHARACTERS = 2_000
MAX_ENTRIES = 500
_INT4_MAX = 2**31 - 1

_json = msgspec.json.Encoder()
R = TypeVar("R", bound=JournalRecord)


class Unstorable(ValueError):
    """The row contains a NUL character, which PostgreSQL cannot store in text."""


def copy_line(*fields: str) -> str:
    """Build one row for COPY with the option NULL ''. Raises Unstorable."""
    text = "\0".join(fields)
    if text.count("\0") != len(fields) - 1:
        raise Unstorable("a field holds a NUL character")
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return text.replace("\0", "\t")


def copy_rows(cursor: psycopg.Cursor, statement: str, lines: Iterable[str]) -> bool:
    """COPY the lines into a temporary table. Returns False if `lines` is empty."""
    text = "\n".join(lines)
    if not text:
        return False
    with cursor.copy(statement.encode()) as copy:
        copy.write(text)
        copy.write("\n")
    return True


def number_lines(lines: Sequence[str], numbers: Mapping[int, int]) -> list[str]:
    """Put its row id in front of each line for PostgreSQL's COPY. `numbers` maps positions of lines to ids.

    PostgreSQL assigns an id to each line whose position is not in `numbers`.
    """
    if not numbers:
        return [f"\t{line}" for line in lines]
    return [f"{numbers.get(place, '')}\t{line}" for place, line in enumerate(lines)]


def encode_json(value: object) -> str:
    """Encode a value as JSON for a column. Raises Unstorable."""
    text = _json.encode(value).decode()
    if "\\u0000" in text:
        raise Unstorable("a value holds a NUL character")
    return text


@lru_cache(maxsize=4_096)
def host_address(text: str) -> str:
    """Text of an address for an inet column, without the interface (%eth0); "" if the text is not an address."""
    text = text.partition("%")[0]
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, text)
        except (OSError, ValueError):
            continue
        return text
    return ""


def clean_record(record: R) -> R:
    """Copy the record without NUL characters, and with texts and lists shortened to fit a row."""
    return msgspec.convert(_clean_value(msgspec.to_builtins(record)), type(record))


def _clean_value(value: object) -> object:
    if isinstance(value, str):
        return value.replace("\0", "")[:MAX_TEXT_CHARACTERS]
    if isinstance(value, list | tuple):
        return [_clean_value(item) for item in value[:MAX_ENTRIES]]
    if isinstance(value, dict):
        return {_clean_value(key): _clean_value(item) for key, item in list(value.items())[:MAX_ENTRIES]}
    return value


def _certificate_names(record: AuthRecord) -> Values:
    """Names in the certificate. If the certificate has no common name, EAP-TLS uses an alternative name as identity."""
    named = record.facts.get("certificate.common_name", ())
    return named or (record.facts.get("identity", ()) if record.method == "eap-tls" else ())


AUTH_TABLE = """
CREATE TEMPORARY TABLE shipped_auth (
    id bigint, at bigint, tenant_id uuid, site_id uuid, nas_id uuid, nas_address inet, nas_identifier text,
    nas_port text, mac macaddr, identity text, method text, permitted boolean, reason text, detail text, rule_id text,
    rule_name text, policy_id uuid, policy_version int, vlan text, reply json, certificate_serial text,
    tls_version text, resumed boolean, request json, module_microseconds int, suppressed int, verdict text,
    monitored text, identity_key text, common_name_key text
) ON COMMIT DELETE ROWS
"""
AUTH_COPY = "COPY shipped_auth FROM STDIN (NULL '')"
AUTH_INSERT = """
INSERT INTO auth_log (
    id, at, cell_id, tenant_id, site_id, nas_id, nas_address, nas_identifier, nas_port, mac, identity, method,
    permitted, reason, detail, rule_id, rule_name, policy_id, policy_version, vlan, reply, certificate_serial,
    tls_version, resumed, request, module_microseconds, suppressed, verdict, monitored, identity_key,
    common_name_key
)
SELECT
    coalesce(id, nextval('auth_log_id_seq')), to_timestamp(at::float8 / 1e6), %s, tenant_id, site_id, nas_id,
    nas_address, coalesce(nas_identifier, ''), coalesce(nas_port, ''), mac, coalesce(identity, ''),
    coalesce(method, ''), permitted, coalesce(reason, ''), coalesce(detail, ''), coalesce(rule_id, ''),
    coalesce(rule_name, ''), policy_id, policy_version, coalesce(vlan, ''), reply, coalesce(certificate_serial, ''),
    coalesce(tls_version, ''), resumed, request, module_microseconds, suppressed, coalesce(verdict, ''),
    coalesce(monitored, ''), coalesce(identity_key, ''), coalesce(common_name_key, '')
FROM shipped_auth
"""


def auth_line(record: AuthRecord) -> str:
    return copy_line(
        str(record.at),
        record.tenant_id,
        record.site_id,
        record.nas_id,
        host_address(record.nas_address),
        record.nas_identifier,
        record.nas_port,
        record.mac,
        record.identity,
        record.method,
        "t" if record.permitted else "f",
        record.reason,
        record.detail,
        record.rule_id,
        record.rule_name,
        record.policy_id,
        str(record.policy_version),
        record.vlan,
        encode_json(record.reply) if record.reply else "[]",
        record.certificate_serial,
        record.tls_version,
        "t" if record.resumed else "f",
        encode_json(record.request),
        str(min(record.module_microseconds, _INT4_MAX)),
        str(min(record.suppressed, _INT4_MAX)),
        record.verdict,
        record.monitored,
        # With MAB, the user name is the MAC address. Searches by MAC address find the row without a key for the name.
        "" if record.method == "mab" and record.permitted else record.identity.lower(),
        "".join(map(str, _certificate_names(record)[:1])).lower(),
    )
