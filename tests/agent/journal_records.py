"""Journal records as the module writes them, and shippers that bring them to the test's database."""

from dataclasses import replace

from nac.cellformat.journal.records import AccountingRecord, AuthRecord, CertificateSentRecord
from nac.cellformat.journal.writer import JournalWriter
from radius.agent.alarms import Alarms
from radius.agent.shipping.shipper import Shipper, shipping_engine
from radius.agent.shipping.streams import AccountingStream, AuthStream

SECOND = 1_000_000
# Far from the partition of the current day, so tests do not depend on the date. Rows go to the default partition.
AT = 4_000_000_000 * SECOND


def auth(tenant, *, at=AT, mac="aabbccddeeff", permitted=True, conversation="", **values):
    fields = {
        "at": at,
        "slot": tenant.slot,
        "tenant_id": str(tenant.id),
        "site_id": "",
        "nas_id": "",
        "nas_address": "192.0.2.7",
        "nas_identifier": "switch-1",
        "nas_port": "1/0/3",
        "mac": mac,
        "identity": mac,
        "method": "mab",
        "permitted": permitted,
        "reason": "rule-permitted" if permitted else "unknown-mac",
        "detail": "",
        "rule_id": "r1",
        "rule_name": "Printers",
        "policy_id": "",
        "policy_version": 3,
        "vlan": "20",
        "reply": (("Tunnel-Type:1", ":=", "VLAN"),),
        "certificate_serial": "",
        "tls_version": "",
        "resumed": False,
        "conversation": conversation,
        "pairs": (("NAS-Port", "3"),),
        "facts": {"endpoint.known": (True,)},
        "module_microseconds": 40,
    }
    return AuthRecord(**(fields | values))


def certificate_sent(tenant, conversation, *, at=AT, mac="aabbccddeeff", identity="anna"):
    return CertificateSentRecord(
        at, tenant.slot, str(tenant.id), conversation, "", "", "192.0.2.7", "switch-1", "1/0/3", mac, identity
    )


def accounting(
    tenant, status, *, at=AT, session="s1", seconds=None, nas="switch-1", station="AA-BB-CC-DD-EE-FF", **more
):
    """An accounting record. `more` are attributes, with underscores in place of dashes."""
    attributes = {
        "User-Name": "anna",
        "NAS-Identifier": nas,
        "NAS-IP-Address": "192.0.2.7",
        "Calling-Station-Id": station,
        "Acct-Status-Type": status,
        "Acct-Session-Id": session,
    }
    if seconds is not None:
        attributes["Acct-Session-Time"] = str(seconds)
    attributes |= {name.replace("_", "-"): value for name, value in more.items()}
    if status.startswith("Accounting-"):
        del attributes["Acct-Session-Id"], attributes["Calling-Station-Id"]
    return AccountingRecord(at, tenant.slot, str(tenant.id), "", "", "192.0.2.7", tuple(attributes.items()))


class Reports:
    """Accounting records of a tenant's NAS. Times are seconds after AT."""

    def __init__(self, tenant):
        self.tenant = tenant

    def record(self, status, after=0, octets=None, **more):
        counter = {} if octets is None else {"Acct_Input_Octets": str(octets)}
        return accounting(self.tenant, status, at=AT + after * SECOND, **counter, **more)

    def start(self, after=0, **more):
        return self.record("Start", after, **more)

    def interim(self, seconds, octets=None, *, after=None, status="Interim-Update", **more):
        """A report of a session that began at AT and has lasted `seconds`. `None` omits the Acct-Session-Time."""
        return self.record(status, seconds if after is None else after, octets, seconds=seconds, **more)

    def stop(self, seconds, octets=None, **more):
        return self.interim(seconds, octets, status="Stop", **more)

    def restart(self, after, status="Accounting-On", **more):
        return self.record(status, after, **more)

    def session(self, after=0, **more):
        """Records of a session of half an hour: Start, two Interim-Updates and Stop."""
        ends = {"Acct_Terminate_Cause": "User-Request"}
        return [
            self.start(after, **more),
            *(self.interim(seconds, 10 * seconds, after=after + seconds, **more) for seconds in (600, 1_200)),
            self.stop(1_800, 18_000, after=after + 1_800, **ends, **more),
        ]


class Clock:
    def __init__(self, now=AT):
        self.now = now

    def __call__(self):
        return self.now


class Journal:
    """A cell's journal with a shipper for each stream."""

    def __init__(self, directory, database, cell_id):
        self.directory = directory
        self._database = database
        self._cell_id = cell_id
        self._writers = {}
        self._engines = []
        self.alarms = Alarms()
        self.clock = Clock()
        self.auth = self.shipper(AuthStream())
        self.acct = self.shipper(AccountingStream())

    def shipper(self, stream):
        engine = shipping_engine(self._database.cell_url, stream)
        self._engines.append(engine)
        return Shipper(
            stream,
            cell_id=self._cell_id,
            host="127.0.0.1",
            engine=engine,
            journal=self.directory,
            alarms=self.alarms,
            clock=self.clock,
        )

    def write(self, *records):
        for record in records:
            stream = "acct" if isinstance(record, AccountingRecord) else "auth"
            if stream not in self._writers:
                self._writers[stream] = JournalWriter(self.directory / stream, max_bytes=1 << 30)
            self._writers[stream].append(record)
        return self

    def restart_writers(self):
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def ship(self, *records):
        """Write these records and ship everything."""
        self.write(*records)
        for shipper in (self.auth, self.acct):
            drain(shipper)
        return self

    @property
    def alarm_codes(self):
        return {alarm.code for alarm in self.alarms.standing()}

    def close(self):
        self.restart_writers()
        self.auth.close()
        self.acct.close()
        for engine in self._engines:
            engine.dispose()


def later(journal, seconds):
    """The journal of this cell after `seconds`. The cell was connected and received no more records meanwhile."""
    journal.clock.now = AT + seconds * SECOND
    stream = journal.acct._stream
    stream.keeping = replace(stream.keeping, heard_until=journal.clock.now)
    while journal.acct.step() or journal.acct._stream.due(journal.clock.now):
        continue


def drain(shipper):
    while shipper.step():
        continue
