"""Replacement records for rows that Admit's code cannot read.

A replacement never admits more than the row itself could admit. A replacement affects only the tenant of the row.
Changes of all other tenants take effect.
"""

from collections.abc import Callable, Mapping
from typing import Any

import lmdb
import psycopg

from nac.cellformat.replica.files import ReplicaError
from nac.cellformat.replica.record_builder import blocked_endpoint_record
from nac.cellformat.replica.records import IdentitySourceRecord, UserRecord
from nac.cellformat.replica.writer import WriteBatch
from nac.kit.mac import display_mac

Row = tuple[Any, ...]
StandIn = Callable[[WriteBatch, int, Row], None]
# Errors that concern the whole cell, not only the row.
CELL_WIDE_ERRORS = (lmdb.Error, ReplicaError, psycopg.Error, OSError, MemoryError)
_MAX_KEY_CHARACTERS = 80


def display_key(noun: str, key: str) -> str:
    """Shorten a key for an alarm, because external names may be long."""
    return display_mac(key) if noun == "endpoint" else key[:_MAX_KEY_CHARACTERS]


def _keep_site(batch: WriteBatch, tenant: int, row: Row) -> None:
    batch.keep_site(tenant, row[0])


def _keep_policy(batch: WriteBatch, tenant: int, row: Row) -> None:
    batch.keep_policy(tenant, row[0])


def _block_endpoint(batch: WriteBatch, tenant: int, row: Row) -> None:
    """Block the endpoint: the previous record could admit a device that is blocked now."""
    batch.put_endpoint(tenant, row[0], blocked_endpoint_record(row[1], row[2]))


def _disable_user(batch: WriteBatch, tenant: int, row: Row) -> None:
    """Disable the user. Without a record of the user, Admit would look up the name in an identity source."""
    batch.put_user(tenant, UserRecord(row[0], row[1], True, (), "", b"", 0))


def _disable_source(batch: WriteBatch, tenant: int, row: Row) -> None:
    """Write the source without settings, so that the source rejects all logins.

    Without a record of this source, the next source could admit another user of the same name.
    """
    batch.put_identity_source(tenant, IdentitySourceRecord(row[0], row[1], row[2], row[3], row[4], b"", b""))


def _omit_nas(batch: WriteBatch, tenant: int, row: Row) -> None:
    """Do nothing: `refresh` has removed the record, so the NAS counts as not registered."""


def _delete_certificate(batch: WriteBatch, tenant: int, row: Row) -> None:
    batch.delete_certificate(tenant, row[0])


def _delete_status(batch: WriteBatch, tenant: int, row: Row) -> None:
    batch.delete_external_status(tenant, row[0], row[1])


def _delete_pool(batch: WriteBatch, tenant: int, row: Row) -> None:
    batch.delete_pool(tenant, row[0])


def _delete_lease(batch: WriteBatch, tenant: int, row: Row) -> None:
    batch.delete_pool_lease(tenant, row[0], row[1])


# For each kind of object: a function that returns the row's key in the change feed, a function that writes the
# replacement, and the effect of the replacement.
STAND_INS: Mapping[str, tuple[Callable[[Row], str], StandIn, str]] = {
    "site": (lambda row: row[0], _keep_site, "The previous settings of the site stay in force"),
    "policy": (lambda row: row[0], _keep_policy, "The previous version of the policy stays in force"),
    "nas": (lambda row: row[0], _omit_nas, "The NAS counts as not registered"),
    "endpoint": (lambda row: row[0], _block_endpoint, "The device is denied"),
    "user": (lambda row: row[1], _disable_user, "The user is denied"),
    "identity-source": (lambda row: row[0], _disable_source, "The source rejects every login"),
    "certificate": (lambda row: row[0], _delete_certificate, "The certificate counts as unknown"),
    "external-status": (
        lambda row: f"{row[0]}:{row[1]}",
        _delete_status,
        "The status of the certificate counts as unknown",
    ),
    "pool": (lambda row: row[0], _delete_pool, "The pool assigns no addresses"),
    "pool-lease": (lambda row: f"{row[0]}:{row[1]}", _delete_lease, "The device gets another address"),
}
