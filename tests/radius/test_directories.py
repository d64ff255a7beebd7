"""Logins from the NAS to a real directory and back: through radiusd, the verifier process and slapd."""

import json
import os
import resource
import signal
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from nac.cellformat.replica.records import IdentitySourceRecord
from nac.kit.radius_packet import ACCESS_ACCEPT, ACCESS_REJECT
from radius.agent.alarms import Alarms
from tests.identities.conftest import HERE
from tests.identities.slapd import BASE, SERVICE_DN, SERVICE_PASSWORD, Slapd, dn_of, group, person, tree
from tests.polling import until
from tests.radius.nas import ask_mab, log_in
from tests.verifier.verifier_server import kept_verifier

PASSWORD = "anna's own password"
OTHER = "another anna's password"
REJECT_DELAY_SECONDS = 0.3


@pytest.fixture(scope="module")
def verifier(standalone_cell):
    cell = standalone_cell
    port = cell.config.verifier.port
    with kept_verifier(cell.paths, port, Alarms(), reach=HERE, reject_delay_seconds=REJECT_DELAY_SECONDS) as process:
        yield process


@pytest.fixture(scope="module")
def directories():
    """The directories of alpha and bravo. Each has a user anna."""
    with Slapd() as alphas, Slapd() as bravos:
        for slapd, password, crowd in ((alphas, PASSWORD, "staff"), (bravos, OTHER, "guests")):
            slapd.load(tree() + person("anna-ldap", password) + group(crowd, dn_of("anna-ldap")))
            slapd.load(person("gustl", password) + group("visitors", dn_of("gustl")))
        yield {"alpha": alphas, "bravo": bravos}


class Sources:
    def __init__(self, cell, directories):
        self._cell, self._directories = cell, directories
        self._ids = {"alpha": str(uuid.uuid4()), "bravo": str(uuid.uuid4())}

    def put(self, slug, **changed):
        slapd, tenant = self._directories[slug], self._cell.tenants[slug]
        document = {
            "urls": [slapd.ldaps],
            "ca_certificate": slapd.ca_certificate,
            "bind_dn": SERVICE_DN,
            "base_dn": f"ou=people,{BASE}",
            "time_limit_seconds": 2,
        } | changed
        source_id = self._ids[slug]
        sealed = self._cell.sealer.seal(SERVICE_PASSWORD.encode(), f"identity-source:{source_id}")
        raw = json.dumps(document).encode()
        record = IdentitySourceRecord(source_id, "corp", "ldap", 1, time.time_ns(), raw, sealed)
        with self._cell.changes() as batch:
            batch.put_identity_source(tenant.number, record)

    def remove(self, slug):
        with self._cell.changes() as batch:
            batch.delete_identity_source(self._cell.tenants[slug].number, self._ids[slug])


@pytest.fixture
def sources(cell, verifier, directories):
    made = Sources(cell, directories)
    made.put("alpha")
    made.put("bravo")
    return made


def login(tenant, password=PASSWORD, name="anna-ldap"):
    return log_in(tenant, name, password, seconds=12)


def concurrent_logins(tenant, count, *, meanwhile=lambda: None):
    """The codes of logins at the same time."""
    with ThreadPoolExecutor(count) as pool:
        codes = [pool.submit(login, tenant) for _ in range(count)]
        meanwhile()
    return [code.result() for code in codes]


@contextmanager
def suspended_process(slapd):
    os.kill(slapd.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(slapd.pid, signal.SIGCONT)


@pytest.mark.parametrize("answers_for", [(), ("corp",)])
def test_directory_and_local_users_may_type_the_realm(cell, sources, answers_for):
    cell.set_slot(realms=("corp",))
    sources.put("alpha", realms=answers_for)
    cell.put_argon2_user("otto", "correct horse battery")
    for name, password in (("anna-ldap", PASSWORD), ("otto", "correct horse battery")):
        cell.forget_records()
        assert login(cell.alpha, password, rf"CORP\{name}") == ACCESS_ACCEPT
        assert (cell.decision().identity, cell.decision().request["user.group"]) == (name, ("staff",))
        assert login(cell.alpha, password, rf"OTHER\{name}") == ACCESS_REJECT
        assert cell.decision(permitted=False).reason == "unknown-user"


def test_equal_names_in_two_directories_are_separate(cell, sources):
    assert login(cell.bravo, OTHER) == ACCESS_REJECT
    assert login(cell.bravo, PASSWORD) == ACCESS_REJECT
    reasons = [record.reason for record in cell.decisions(tenant_id=cell.bravo.tenant_id)]
    assert reasons == ["rule-denied", "wrong-password"]
    # A wrong password does not block the right one.
    assert login(cell.alpha, OTHER) == ACCESS_REJECT
    assert login(cell.alpha, PASSWORD) == ACCESS_ACCEPT
    record = cell.decision(permitted=True)
    assert record.rule_id == "staff"
    assert (record.request["user.source"], record.request["user.group"]) == (("corp",), ("staff",))


def test_realm_without_a_source_is_reported(cell, sources):
    sources.put("alpha", realms=["corp.example"])
    assert login(cell.alpha, name="otto@other.example") == ACCESS_REJECT
    record = cell.decision(identity="otto@other.example")
    assert (record.reason, record.detail) == ("unknown-user", "no identity source handles the realm of this name")


def test_local_user_is_verified_by_argon2id(cell, sources):
    words = ("correct horse battery", "wrong horse battery")
    for password in words:
        cell.put_argon2_user("otto", password)
        codes = {word: login(cell.alpha, word, "otto") for word in words}
        assert codes == {word: ACCESS_ACCEPT if word == password else ACCESS_REJECT for word in words}
    assert {record.reason for record in cell.decisions(permitted=False)} == {"wrong-password"}


def test_cached_password_works_until_the_source_changes(cell, sources, directories):
    assert login(cell.alpha) == ACCESS_ACCEPT
    directories["alpha"].stop()
    try:
        assert login(cell.alpha) == ACCESS_ACCEPT
        sources.put("alpha")
        assert login(cell.alpha) == ACCESS_REJECT
    finally:
        directories["alpha"].start()
    assert [record.reason for record in cell.decisions()] == ["rule-permitted"] * 2 + ["directory-unavailable"]
    assert login(cell.alpha) == ACCESS_ACCEPT


def test_denied_group_takes_as_long_as_a_wrong_password(cell, sources):
    for password, reason in ((OTHER, "wrong-password"), (PASSWORD, "fallback-denied")):
        started = time.monotonic()
        assert login(cell.alpha, password, name="gustl") == ACCESS_REJECT
        assert time.monotonic() - started >= REJECT_DELAY_SECONDS
        assert cell.decision(reason=reason).identity == "gustl"


def test_deleted_source_admits_nobody(cell, sources):
    assert login(cell.alpha) == ACCESS_ACCEPT
    sources.remove("alpha")
    assert login(cell.alpha) == ACCESS_REJECT
    assert cell.decisions()[-1].reason == "unknown-user"


def test_hanging_directory_fails_only_its_own_logins(cell, sources, directories):
    def log_in_elsewhere():
        assert [ask_mab(cell.alpha) for _ in range(100)] == [ACCESS_ACCEPT] * 100
        # The directory of another tenant answers.
        assert login(cell.bravo, OTHER) == ACCESS_REJECT

    logins = 12
    sources.put("alpha", cache_seconds=0, connections=logins, breaker_failures=1000)
    with suspended_process(directories["alpha"]):
        codes = concurrent_logins(cell.alpha, logins, meanwhile=log_in_elsewhere)
    assert codes == [ACCESS_REJECT] * logins
    decisions = cell.decisions(identity="anna-ldap", slot=cell.alpha.slot)
    assert [record.reason for record in decisions] == ["directory-slow"] * logins
    assert cell.decision(slot=cell.bravo.slot).reason == "rule-denied"


def test_logins_over_the_source_queue_are_rejected_at_once(cell, sources, directories):
    sources.put("alpha", cache_seconds=0, connections=1, waiting=1, breaker_failures=1000)
    with suspended_process(directories["alpha"]):
        concurrent_logins(cell.alpha, 6)
    reasons = [record.reason for record in cell.decisions()]
    assert len(reasons) == 6
    # The waiting login may be verified at the last moment or be rejected.
    assert reasons.count("directory-slow") in (1, 2)
    assert reasons.count("directory-slow") + reasons.count("verifier-busy") == 6


def test_repeatedly_failing_source_is_paused_and_recovers(cell, sources, directories, verifier):
    sources.put("alpha", breaker_failures=3, breaker_seconds=3)
    directories["alpha"].stop()
    try:
        assert [login(cell.alpha) for _ in range(5)] == [ACCESS_REJECT] * 5
    finally:
        directories["alpha"].start()
    told = [record.detail for record in cell.decisions()]
    assert [detail.startswith("source paused after failures") for detail in told] == [False] * 3 + [True] * 2
    until(lambda: login(cell.alpha) == ACCESS_ACCEPT, "the source is asked again")


def test_killed_verifier_is_restarted(cell, sources, verifier):
    assert login(cell.alpha) == ACCESS_ACCEPT
    # A core file would contain passwords.
    assert resource.prlimit(verifier.pid, resource.RLIMIT_CORE) == (0, 0)
    restarts = verifier.counters["restarts"]
    os.kill(verifier.pid, signal.SIGKILL)
    until(lambda: verifier.counters["restarts"] > restarts, "the verifier is started again")
    assert login(cell.alpha) == ACCESS_ACCEPT
