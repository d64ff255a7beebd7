"""Entries are sealed in commit order, in one chain per owner.

Admit's verifier and an independent verifier check an export.
"""

import json
import re
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from nac.core.audit import chain
from nac.core.audit import service as audit
from nac.core.audit.chain import chain_name, first_hash, next_hash
from nac.core.audit.service import list_differences
from nac.core.audit.verification import parse_known_head, verify_export
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.errors import InvalidInput, ScopeViolation
from nac.models import PlatformAlarm
from nac.onboarding import tenant_purge
from nac.tenancy.tenants import service as tenants
from tests.audit.conftest import Log

STRANGE = {'é\u2028"\\': [1, 2.5, 10**30, None, True, {"deep": "x\ty"}], "": ""}


def test_each_owner_has_its_own_chain(log: Log) -> None:
    owners = {"a": log.alpha, "b": log.bravo, "m": log.msp, "p": log.platform}
    for target, owner in owners.items():
        log.write(owner, f"{target}1", f"{target}2", after=STRANGE)
    assert log.seal() == 8
    assert log.seal() == 0
    for target, owner in owners.items():
        lines = log.export(owner)
        result = verify_export(lines)
        assert (result.findings, result.notes, result.chain) == ([], [], chain_name(owner))
        assert result.entries == result.last == len(lines) - 2
        assert log.targets(owner)[-2:] == [f"{target}1", f"{target}2"]


def test_sealing_does_not_wait_for_another_transaction(log: Log) -> None:
    """The transaction that started first and ends last is last in the chain."""
    with session_scope(PlatformScope(), engine=log.app) as session:
        audit.append(session, actor="test:x", action="thing.set", target="late", **log.alpha.columns())
        log.write(log.alpha, "early")
        assert log.seal() == 1
    log.seal()
    assert log.targets(log.alpha)[-2:] == ["early", "late"]
    assert verify_export(log.export(log.alpha)).findings == []


def test_concurrent_sealers_do_not_conflict(log: Log) -> None:
    log.write(log.alpha, *map(str, range(50)))
    with session_scope(PlatformScope(), engine=log.worker) as session:
        session.execute(text("SELECT pg_try_advisory_xact_lock(hashtext('audit'), hashtext('seal'))"))
        assert log.seal() == 0
    threads = [threading.Thread(target=log.seal) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    while log.seal(most=7):
        pass
    assert log.targets(log.alpha)[-50:] == list(map(str, range(50)))
    assert verify_export(log.export(log.alpha)).findings == []


def test_rolled_back_change_leaves_no_entry(log: Log) -> None:
    with session_scope(PlatformScope(), engine=log.app) as session:
        audit.append(session, actor="test:x", action="thing.set", target="never", **log.alpha.columns())
        session.rollback()
    assert log.seal() == 0


def test_export_resumes_where_an_earlier_one_ended(log: Log) -> None:
    log.write(log.alpha, "1", "2")
    log.seal()
    first = log.export(log.alpha)
    kept = parse_known_head("\n".join(first))
    log.write(log.alpha, "3")
    log.seal()
    second = log.export(log.alpha, behind=kept.position)
    assert [json.loads(json.loads(line)["entry"])["target"] for line in second[1:-1]] == ["3"]
    result = verify_export(second, known=[kept])
    assert (result.findings, result.notes, result.after) == ([], [], kept.position)
    assert verify_export(log.export(log.alpha), known=[kept]).findings == []
    with pytest.raises(InvalidInput, match="entries"):
        log.export(log.alpha, behind=10**9)


def test_purged_tenant_leaves_all_chains_intact(log: Log) -> None:
    log.write(log.bravo, "b")
    with session_scope(PlatformScope(), engine=log.app) as session:
        tenants.delete_tenant(session, actor="test:x", tenant_id=log.alpha.tenant_id)
        tenant_purge.purge_tenant(session, actor="test:x", tenant_id=log.alpha.tenant_id)
    log.seal()
    for owner in (log.alpha, log.bravo):
        assert verify_export(log.export(owner)).findings == []
    last = log.query("SELECT action FROM audit_log WHERE target = 'alpha' ORDER BY id DESC LIMIT 1")
    assert last == [("tenant.purge",)]


def test_chains_are_isolated_by_owner(log: Log) -> None:
    log.write(log.alpha, "a")
    log.write(log.bravo, "b")
    log.seal()
    with session_scope(TenantScope(log.alpha.tenant_id), engine=log.app) as session:
        for sql in ("SELECT tenant_id FROM audit_chains", "SELECT DISTINCT tenant_id FROM audit_log"):
            assert session.scalars(text(sql)).all() == [log.alpha.tenant_id]
        seen = set(session.scalars(text("SELECT entry_id FROM audit_seals")))
        assert seen == set(session.scalars(text("SELECT id FROM audit_log")))
        with pytest.raises(chain.NothingSealed):
            chain.get_head(session, owner=log.bravo)
    for sql in (
        "UPDATE audit_chains SET position = 0",
        "DELETE FROM audit_seals",
        "INSERT INTO audit_seals VALUES (1, 99, 99, 'x')",
        "DELETE FROM audit_unsealed",
        "SELECT private_sealed FROM audit_keys",
    ):
        with pytest.raises(ScopeViolation), session_scope(PlatformScope(), engine=log.app) as session:
            session.execute(text(sql))
    append_only = pytest.raises(psycopg.errors.InsufficientPrivilege, match="append-only")
    with psycopg.connect(log.database.owner_url) as connection, append_only:
        connection.execute("DELETE FROM audit_seals")


def test_documented_verifier_is_independent(log: Log, tmp_path: Path) -> None:
    """The script in docs/how-to/audit.md uses jq, awk, sha256sum and openssl. It names the broken link."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "audit.md").read_text()
    script = re.search(r"```sh\n(.*?)```", page, re.DOTALL)
    assert script is not None
    log.write(log.alpha, "1", "2", "4", after=STRANGE)
    log.seal()
    lines = log.export(log.alpha)
    edited = next(place for place, line in enumerate(lines) if '\\"2\\"' in line)
    assert edited < len(lines) - 2, "one comes behind it"

    def verify(*files: Path) -> subprocess.CompletedProcess[str]:
        command = ["bash", "-euo", "pipefail", "-c", script[1], "verify", *files]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    for name, content, told in (
        ("good", lines, ""),
        ("edited", [line.replace('\\"2\\"', '\\"3\\"') for line in lines], f"entry {edited} was changed\n"),
        ("gone", [*lines[:edited], *lines[edited + 1 :]], f"not entry {edited}\nentry {edited + 1} was changed\n"),
        ("cut", [*lines[:-2], lines[-1]], "the head is of something else\n"),
        ("signature", [*lines[:-1], lines[-1].replace('"signature": "', '"signature": "AAAA')], ""),
    ):
        (tmp_path / name).write_text("\n".join(content) + "\n")
        done = verify(tmp_path / name)
        good = name == "good"
        assert (done.returncode == 0) == good, (name, done.stdout, done.stderr)
        assert (verify_export(content).findings == []) == good, name
        assert "".join(re.findall(r"^(?:not|entry|the head).*\n", done.stdout, re.MULTILINE)) == told, name
    # The entries are intact, and signed by the saved key or by another key.
    kept, other = tmp_path / "kept.pem", tmp_path / "other.pem"
    kept.write_text(json.loads(lines[-1])["public_key"])
    subject = Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
    other.write_bytes(Ed25519PrivateKey.generate().public_key().public_bytes(*subject))
    for key, is_known in ((kept, True), (other, False)):
        done = verify(tmp_path / "good", key)
        assert (done.returncode == 0) == is_known, (done.stdout, done.stderr)
        assert ("signed by another key" in done.stdout) != is_known


@given(st.lists(st.text(max_size=60), max_size=6))
def test_verifier_handles_arbitrary_files(lines: list[str]) -> None:
    begin = json.dumps({"form": "admit-audit-1", "chain": "platform", "after": 0, "previous": "00" * 32})
    for given_lines in (lines, [begin, *lines]):
        with suppress(InvalidInput):
            assert verify_export(given_lines).findings


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["form", "head", "entry", "hash", "x"]), inner),
        max_leaves=8,
    )
)
def test_verifier_handles_arbitrary_lines(value: object) -> None:
    begin = json.dumps(
        {"form": "admit-audit-1", "chain": "platform", "after": 0, "previous": first_hash("platform").hex()}
    )
    place = {"position": 1, "hash": next_hash(first_hash("platform"), "{}").hex(), "entry": value}
    end = {"head": value, "signature": value, "public_key": value}
    for row in (value, place, end, end | {"head": json.dumps(value)}):
        with suppress(InvalidInput):
            assert verify_export([begin, json.dumps(row)]).findings


def test_differences_are_reported_field_by_field() -> None:
    before, after = {"a": 1, "b": {"c": 1, "d": 2}, "e": [1]}, {"a": 1, "b": {"c": 3}, "f": {"g": 1}}
    changed = [("b.c", 1, 3), ("b.d", 2, None), ("e", [1], None), ("f.g", None, 1)]
    assert list_differences(before, after) == changed
    assert list_differences(None, None) == []


def test_entry_removed_before_sealing_is_reported(log: Log) -> None:
    log.write(log.alpha, "gone", "stays")
    log.tamper("DELETE FROM audit_log WHERE target = 'gone'")
    log.seal()
    log.seal()
    assert log.targets(log.alpha)[-1] == "stays"
    assert log.targets(log.platform)[-1].startswith("entry ")
    with session_scope(PlatformScope(), engine=log.worker) as session:
        assert session.get(PlatformAlarm, "audit-entry-missing") is not None


def test_saved_head_with_a_forged_signature_is_rejected(log: Log) -> None:
    head = json.loads(log.export(log.alpha)[-1])
    with pytest.raises(InvalidInput, match="signature"):
        parse_known_head(json.dumps(head | {"head": head["head"].replace('"position":', '"position":1')}))
