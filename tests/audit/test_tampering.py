"""An attacker with full access to the database changes the audit log, and Admit detects the change."""

import json
from collections.abc import Callable

import pytest
from sqlalchemy import Engine

from nac.core import alarms
from nac.core.audit.chain import entry_text, next_hash
from nac.core.audit.chain_seals import BROKEN_CHAIN_ALARM
from nac.core.audit.verification import parse_known_head, verify_export
from nac.kit.db import PlatformScope, session_scope
from nac.models import AuditEntry
from tests.audit.conftest import Log

_CHAIN = "(SELECT id FROM audit_chains WHERE tenant_id = %s)"


@pytest.fixture
def sealed(log: Log) -> Log:
    for _ in range(2):
        log.write(log.alpha, "one", "two", "three", after={"vlan": "20"})
        log.seal()
    return log


def _position_of(log: Log, target: str) -> int:
    return log.query(
        "SELECT s.position FROM audit_seals s JOIN audit_log a ON a.id = s.entry_id WHERE a.target = %s ORDER BY 1",
        target,
    )[0][0]


def _move_seal(log: Log, old: int, new: int) -> None:
    move = f"UPDATE audit_seals SET position = %s WHERE position = %s AND chain_id = {_CHAIN}"
    log.tamper(move, new, old, log.alpha.tenant_id)


def edit(log: Log) -> None:
    log.tamper("""UPDATE audit_log SET after = '{"vlan": "99"}' WHERE target = 'two'""")


def edit_time(log: Log) -> None:
    log.tamper("UPDATE audit_log SET at = at + interval '1 microsecond' WHERE target = 'two'")


def delete_entry(log: Log) -> None:
    log.tamper("DELETE FROM audit_log WHERE target = 'two'")


def delete_with_place(log: Log) -> None:
    log.tamper("DELETE FROM audit_seals s USING audit_log a WHERE a.id = s.entry_id AND a.target = 'two'")
    log.tamper("DELETE FROM audit_log WHERE target = 'two'")


def delete_and_close_up(log: Log) -> None:
    at = _position_of(log, "two")
    log.tamper(f"DELETE FROM audit_seals WHERE position = %s AND chain_id = {_CHAIN}", at, log.alpha.tenant_id)
    for position in range(at + 1, at + 5):
        _move_seal(log, position, position - 1)


def swap(log: Log) -> None:
    at = _position_of(log, "one")
    for old, new in ((at, 0), (at + 1, at), (0, at + 1)):
        _move_seal(log, old, new)


def swap_contents(log: Log) -> None:
    log.tamper(
        "UPDATE audit_log SET target = CASE target WHEN 'one' THEN 'two' ELSE 'one' END WHERE target IN ('one', 'two')"
    )


def insert(log: Log) -> None:
    log.write(log.alpha, "forged")
    entry = log.query("SELECT entry_id FROM audit_unsealed")[0][0]
    log.tamper("DELETE FROM audit_unsealed")
    for position in range(_position_of(log, "two") + 5, _position_of(log, "two") - 1, -1):
        _move_seal(log, position, position + 1)
    log.tamper(
        f"INSERT INTO audit_seals SELECT chain_id, %s, %s, hash FROM audit_seals WHERE chain_id = {_CHAIN} LIMIT 1",
        *(_position_of(log, "two") - 1, entry, log.alpha.tenant_id),
    )


def take_from_another_chain(log: Log) -> None:
    log.tamper("UPDATE audit_log SET tenant_id = %s WHERE target = 'two'", log.bravo.tenant_id)


def cut_end(log: Log) -> None:
    cut = f"DELETE FROM audit_seals WHERE chain_id = {_CHAIN} AND position > %s"
    log.tamper(cut, log.alpha.tenant_id, _position_of(log, "two"))


def _rehash(log: Log) -> bytes:
    seals = f"SELECT position, entry_id, hash FROM audit_seals WHERE chain_id = {_CHAIN} ORDER BY 1"
    rows = log.query(seals, log.alpha.tenant_id)
    first = _position_of(log, "two")
    digest = rows[first - 2][2]
    with session_scope(PlatformScope(), engine=log.app) as session:
        texts = {entry_id: entry_text(session.get_one(AuditEntry, entry_id)) for _, entry_id, _ in rows}
    for position, entry_id, _ in rows[first - 1 :]:
        digest = next_hash(digest, texts[entry_id])
        rehash = f"UPDATE audit_seals SET hash = %s WHERE position = %s AND chain_id = {_CHAIN}"
        log.tamper(rehash, digest, position, log.alpha.tenant_id)
    return digest


def rewrite_log(log: Log) -> None:
    """Rewrite the log with all hashes, which anyone can compute, and a head without a valid signature."""
    edit(log)
    digest = _rehash(log)
    log.tamper("UPDATE audit_chains SET hash = %s WHERE tenant_id = %s", digest, log.alpha.tenant_id)


@pytest.mark.parametrize(
    "attack",
    [
        *(edit, edit_time, delete_entry, delete_with_place, delete_and_close_up, swap, swap_contents, insert),
        *(take_from_another_chain, cut_end, rewrite_log),
    ],
)
def test_tampered_sealed_entries_are_detected(sealed: Log, attack: Callable[[Log], None]) -> None:
    assert verify_export(sealed.export(sealed.alpha)).findings == []
    attack(sealed)
    findings = verify_export(sealed.export(sealed.alpha)).findings
    assert findings, "nobody noticed"
    assert verify_export(sealed.export(sealed.bravo)).findings == []


def test_replaced_head_is_not_signed_again(sealed: Log, worker_engine: Engine) -> None:
    before = sealed.query("SELECT hash FROM audit_chains WHERE tenant_id = %s", sealed.alpha.tenant_id)[0][0]
    edited = sealed.query("SELECT after FROM audit_log WHERE target = 'two'")[0][0]
    rewrite_log(sealed)
    sealed.write(sealed.alpha, "after")
    sealed.write(sealed.bravo, "other")
    for _ in range(2):
        sealed.seal()
    assert "after" not in sealed.targets(sealed.alpha)
    assert sealed.targets(sealed.bravo)[-1] == "other"
    with session_scope(PlatformScope(), engine=worker_engine) as session:
        assert [alarm.code for alarm in alarms.list_alarms(session)] == [BROKEN_CHAIN_ALARM]
    # Sealing continues after the head is restored.
    sealed.tamper("UPDATE audit_log SET after = %s::jsonb WHERE target = 'two'", json.dumps(edited))
    restore(sealed, before)


def restore(log: Log, head: bytes) -> None:
    digest = _rehash(log)
    assert digest == head
    log.tamper("UPDATE audit_chains SET hash = %s WHERE tenant_id = %s", head, log.alpha.tenant_id)
    log.seal()
    assert log.targets(log.alpha)[-1] == "after"
    assert verify_export(log.export(log.alpha)).findings == []
    with session_scope(PlatformScope(), engine=log.worker) as session:
        assert alarms.list_alarms(session) == []


def test_replaced_key_signs_nothing(sealed: Log) -> None:
    """The new key also belongs to the owner of the database, but the master key did not seal it."""
    sealed.tamper("UPDATE audit_keys SET public_key = %s", bytes(32))
    sealed.write(sealed.alpha, "after")
    with pytest.raises(Exception, match="was changed"):
        sealed.seal()


def test_rollback_is_detected_with_a_later_head(sealed: Log) -> None:
    """An earlier head, restored with its signature, is valid. Only a head saved elsewhere reveals the rollback."""
    columns = "position, hash, sealed_at, signature"
    before = sealed.query(f"SELECT {columns} FROM audit_chains WHERE tenant_id = %s", sealed.alpha.tenant_id)[0]
    sealed.write(sealed.alpha, "later")
    sealed.seal()
    kept = parse_known_head("\n".join(sealed.export(sealed.alpha)))
    sealed.tamper(
        f"DELETE FROM audit_seals WHERE chain_id = {_CHAIN} AND position > %s", sealed.alpha.tenant_id, before[0]
    )
    sealed.tamper("DELETE FROM audit_log WHERE target = 'later'")
    sealed.tamper(
        f"UPDATE audit_chains SET ({columns}) = (%s, %s, %s, %s) WHERE tenant_id = %s", *before, sealed.alpha.tenant_id
    )
    lines = sealed.export(sealed.alpha)
    assert verify_export(lines).findings == []
    assert "entries were deleted" in verify_export(lines, known=[kept]).findings[0]
    # The rollback is detected even after the chain continued from the earlier head.
    sealed.write(sealed.alpha, "instead", "of it")
    sealed.seal()
    lines = sealed.export(sealed.alpha)
    assert verify_export(lines).findings == []
    assert "has another entry" in verify_export(lines, known=[kept]).findings[0]
