"""Model test of sessions: records arrive in any order and number, and agents are killed.

The stored sessions and totals equal those of a simple model.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from unittest import mock

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from msgspec.structs import replace

from radius.agent.sessions import nas_restarts
from radius.agent.shipping.streams import AccountingBatch, AccountingStream
from tests.agent.journal_records import AT, SECOND, accounting, drain
from tests.run_depth import examples

# The error of a NAS's clock in each record.
JITTER = 8
NASES = ("switch-1", "switch-2", "plain")
# The NAS sends no Acct-Session-Time, and no later record overtakes its Starts.
PLAIN = "plain"
SITES = tuple(f"00000000-0000-4000-8000-00000000000{number}" for number in range(2))
# The error of a late record. Also the gap between the Stop of a session and the next Start with the session's id.
UNSURE = 30


class Killed(Exception):
    """Raised in a transaction, after all its writes."""


@dataclass
class Modelled:
    """A session at the NAS, and the delivered records of the session."""

    nas: str
    site: str
    name: str
    start: int
    seconds: int = 0
    octets: int = 0
    stopped: bool = False
    ended_by_restart: int | None = None
    # The session's Stop was lost, and another session now has its id.
    is_followed: bool = False
    delivered: list[tuple[str, int, int, int]] = field(default_factory=list)


class Sessions(RuleBasedStateMachine):
    """A network with identical NASes at two sites.

    Their records are lost, duplicated and reordered. All arrive within a day. A restarted NAS restarts its session
    numbers. Otherwise it reuses a number after a while, or soon after a Stop. Then nothing overtakes the new Start.
    """

    def __init__(self, owner, tenant, journal, shippers):
        super().__init__()
        self.shippers = shippers
        self.owner, self.tenant, self.journal = owner, tenant, journal
        self.now = AT // SECOND
        self.sessions = []
        self.on_the_way = []
        self.restarts = {}

    @initialize()
    def start_empty(self):
        for table in ("sessions", "usage_hours", "nas_restarts"):
            self.owner.execute(f"DELETE FROM {table}")
        self.now = AT // SECOND

    @rule(seconds=st.integers(1, 3_000))
    def time_passes(self, seconds):
        self.now += seconds

    @rule(nas=st.sampled_from(NASES), site=st.sampled_from(SITES), name=st.sampled_from(["a", "b"]))
    def device_comes(self, nas, site, name):
        # Of two identical NASes, one uses the odd numbers.
        name += str(SITES.index(site))
        for known in self.sessions:
            if (known.nas, known.name) == (nas, name) and (
                self.is_live(known) or self.now - self.reusable_at(known) <= 300 + 2 * JITTER
            ):
                return
        session = Modelled(nas, site, name, self.now)
        self.sessions.append(session)
        self.tell(session, "Start")
        if nas == PLAIN:
            self.deliver(self.of(session), lost=False)

    @rule(data=st.data(), octets=st.integers(0, 1 << 40), pause=st.integers(UNSURE + 2 * JITTER, 200))
    def device_comes_back_soon(self, data, octets, pause):
        session = self.draw_live(data)
        if session is None or session.nas == PLAIN:
            return
        session.octets += octets
        session.stopped = True
        self.tell(session, "Stop")
        self.deliver(self.of(session), lost=False)
        self.now += pause
        session = Modelled(session.nas, session.site, session.name, self.now)
        self.sessions.append(session)
        self.tell(session, "Start")
        self.deliver(self.of(session), lost=False)

    @rule(data=st.data(), pause=st.integers(301 + 2 * JITTER, 2_000))
    def stop_is_lost_and_the_id_used_again(self, data, pause):
        session = self.draw_live(data)
        if session is None or session.nas == PLAIN or (session.nas, session.site) in self.restarts:
            return
        session.is_followed = True
        self.now += pause
        session = Modelled(session.nas, session.site, session.name, self.now)
        self.sessions.append(session)
        self.tell(session, "Start")
        self.deliver(self.of(session), lost=False)

    @rule(data=st.data(), octets=st.integers(0, 1 << 40))
    def session_goes_on(self, data, octets):
        session = self.draw_live(data)
        if session is not None:
            session.octets += octets
            self.tell(session, "Interim-Update")

    @rule(data=st.data(), octets=st.integers(0, 1 << 40))
    def device_goes(self, data, octets):
        session = self.draw_live(data)
        if session is not None:
            session.octets += octets
            session.stopped = True
            self.tell(session, "Stop")

    @rule(
        nas=st.sampled_from(NASES),
        site=st.sampled_from(SITES),
        status=st.sampled_from(["Accounting-On", "Accounting-Off"]),
    )
    def nas_restarts(self, nas, site, status):
        is_followed = any(known.is_followed for known in self.sessions if (known.nas, known.site) == (nas, site))
        if (nas, site) in self.restarts or is_followed:
            return
        self.now += 10
        self.restarts[nas, site] = self.now
        record = replace(accounting(self.tenant, status, at=self.now * SECOND, nas=nas), site_id=site)
        self.on_the_way.append((None, ("restart", 0, 0, self.now), record))
        for session in self.sessions:
            if (session.nas, session.site) == (nas, site) and self.is_live(session):
                session.ended_by_restart = self.now
        self.now += 10
        if nas == PLAIN:
            self.deliver(self.on_the_way[-1:], lost=False)

    @rule(data=st.data(), count=st.integers(1, 12), lost=st.booleans())
    def records_arrive(self, data, count, lost):
        self.deliver(data.draw(st.permutations(self.on_the_way))[:count], lost=lost and len(self.on_the_way) > 4)

    @rule(data=st.data(), count=st.integers(1, 12))
    def agent_is_killed_while_it_stores(self, data, count):
        self.deliver(data.draw(st.permutations(self.on_the_way))[:count], lost=False, killed=True)

    def of(self, session):
        return [each for each in self.on_the_way if each[0] is session]

    @rule()
    def agent_is_killed(self):
        """Kill the agent. The next agent reads its position from PostgreSQL."""
        self.shippers.reverse()

    def teardown(self):
        self.deliver(list(self.on_the_way), lost=False)
        while self.shippers[0]._stream.keeping.ending:
            self.shippers[0].step()
        assert self.reported_sessions() == sorted(filter(None, map(self.expected, self.sessions)))
        self.usage_is_complete()

    def tell(self, session, status):
        session.seconds = self.now - session.start
        jitter = 0 if status == "Start" or session.nas == PLAIN else (self.now * 7) % (2 * JITTER) - JITTER
        at = self.now + jitter
        seconds = None if status == "Start" or session.nas == PLAIN else session.seconds
        counters = (
            {}
            if status == "Start"
            else {
                "Acct_Input_Octets": str(session.octets & 0xFFFFFFFF),
                "Acct_Input_Gigawords": str(session.octets >> 32),
                "Acct_Output_Octets": str(2 * session.octets & 0xFFFFFFFF),
                "Acct_Output_Gigawords": str(2 * session.octets >> 32),
            }
        )
        record = accounting(
            self.tenant, status, at=at * SECOND, session=session.name, nas=session.nas, seconds=seconds, **counters
        )
        record = replace(record, site_id=session.site)
        self.on_the_way.append((session, (status, session.seconds, session.octets, at), record))

    def deliver(self, chosen, *, lost, killed=False):
        records = []
        for each in chosen:
            session, said, record = each
            if lost and said[0] in ("Start", "Interim-Update"):
                self.on_the_way.remove(each)
                continue
            if (said[1] + said[3]) % 3 != 0:
                # The NAS repeats the other records later.
                self.on_the_way.remove(each)
            records.append(record)
            if session is not None and said not in session.delivered:
                session.delivered.append(said)
        self.on_the_way = [each for each in self.on_the_way if each[2] not in records]
        self.journal.write(*records, *records[::3])
        if killed:
            with suppress(Killed), mock.patch.object(AccountingBatch, "open_conversations", side_effect=Killed):
                drain(self.shippers[0])
            self.shippers.reverse()
        drain(self.shippers[0])

    def expected(self, session):
        if not session.delivered:
            return None
        last = max(session.delivered, key=lambda said: (said[1], said[0] == "Stop"))
        counters = [said[2] for said in session.delivered if said[0] != "Start"]
        is_over = last[0] == "Stop" or self.ended_by_restart(session) or session.is_followed
        cause = "NAS-Reboot" if is_over and last[0] != "Stop" and not session.is_followed else ""
        flags = () if any(said[0] == "Start" for said in session.delivered) else ("no-start",)
        if cause:
            flags += ("nas-restarted",)
        if session.is_followed:
            flags += ("superseded",)
        total = max(counters, default=0)
        return session.nas, session.name, last[1], total, 2 * total, is_over, cause, tuple(sorted(flags))

    def ended_by_restart(self, session):
        return session.ended_by_restart is not None

    def reported_sessions(self):
        rows = self.owner.execute(
            "SELECT split_part(nas_key, '|', 1), session_id, session_seconds, coalesce(input_octets, 0), "
            "coalesce(output_octets, 0), stopped_at IS NOT NULL, terminate_cause, flags FROM sessions"
        )
        return sorted((*row[:7], tuple(sorted(row[7]))) for row in rows)

    def usage_is_complete(self):
        """The hourly usage plus the unreported usage of live sessions equals the usage of the sessions."""
        wrong = self.owner.execute(
            "SELECT s.id, s.session_seconds, s.input_octets, s.settled_seconds, s.settled_input, u.seconds, u.input "
            "FROM sessions s LEFT JOIN LATERAL (SELECT sum(seconds) AS seconds, sum(input_octets) AS input "
            "FROM usage_hours WHERE session_row = s.id) u ON true "
            "WHERE coalesce(u.seconds, 0) <> s.settled_seconds OR coalesce(u.input, 0) <> s.settled_input "
            "OR (s.stopped_at IS NOT NULL AND (s.settled_seconds <> s.session_seconds "
            "OR s.settled_input <> coalesce(s.input_octets, 0)))"
        ).fetchall()
        assert wrong == []
        assert self.owner.execute(
            "SELECT count(*) FROM usage_hours WHERE seconds < 0 OR input_octets < 0 OR output_octets < 0"
        ).fetchone() == (0,)

    def reusable_at(self, session):
        """The time after which the NAS may reuse the session's number."""
        return max(session.start, session.start + session.seconds)

    def is_live(self, session):
        return not (session.stopped or session.is_followed) and session.ended_by_restart is None

    def draw_live(self, data):
        live = [session for session in self.sessions if self.is_live(session)]
        return data.draw(st.sampled_from(live)) if live else None


def test_sessions_and_totals_match_the_model(owner, alpha, journal, monkeypatch):
    monkeypatch.setattr(nas_restarts, "MAX_SESSIONS", 1)
    shippers = [journal.acct, journal.shipper(AccountingStream())]
    run_state_machine_as_test(
        lambda: Sessions(owner, alpha, journal, shippers),
        settings=settings(
            max_examples=examples(40),
            stateful_step_count=30,
            deadline=None,
            phases=[Phase.reuse, Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
