"""Settings of every process: ADMIT_* environment variables, parsed once, every mistake reported at once.

Processes are given their environment by the supervisor (or the container); `./admit` commands read the same values from
`var/admit.env`. A process names the settings it cannot work without; the others may be absent, so that a cell, say,
need not be given the migration role's address.
"""

import difflib
import ipaddress
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import time
from pathlib import Path
from typing import Literal, cast
from urllib.parse import urlsplit

from nac.listen_addresses import bound_addresses, local_address
from nac.outbound.reach import DEFAULT_REACH, OutboundReach

PREFIX = "ADMIT_"
# Variables of the processes' own.
_NOT_SETTINGS = ("MODULE_SETTINGS", "SUPERVISOR", "API_TOKEN", "API_URL")
# With a socket of each family: of the 1,024 descriptors that radiusd can watch, five for each slot (RadSec included).
_MAX_DUAL_STACK_SLOTS = 190
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSettings:
    """What who signs up is given, and how many may."""

    offered: bool
    days: int
    # Between its end and its removal.
    grace_days: int
    endpoints: int
    authentications_a_day: int
    # Within a day: sign-ups that are heard of one source address; that may be confirmed of one mail domain, of all.
    a_day_of_address: int
    a_day_of_domain: int
    a_day: int
    # That run at a time.
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    var_dir: Path
    # Empty where not given; a process that needs one names it in `load_settings(required=...)`.
    database_url: str
    database_owner_url: str
    database_cell_url: str
    database_worker_url: str
    redis_url: str
    master_key_file: Path
    listen_address: str
    # Name or address under which NASes reach the cells.
    radius_host: str
    cell_name: str
    cell_slots: int
    cell_first_port: int
    cell_dir: Path
    # What radiusd may hold before it is exchanged; 0 for half of the machine's or container's memory.
    cell_memory_bytes: int
    # Access-Requests per tenant, and half of its Accounting-Requests; radiusd drops the rest. 0 for no limit. Measured
    # with 40,000/s at one tenant, on 2 cores: p99 of another tenant 4.6 ms at the default, 427 ms without a limit.
    cell_tenant_packets_per_second: int
    journal_sync: Literal["50ms", "always"]
    journal_max_bytes: int
    reject_delay_seconds: float
    # Where servers may be that tenants name: docs/reference/outbound-connections.md.
    outbound_reach: OutboundReach
    # TCP; the next three are those of `public_port`, `enrolment_port` and `mailbox_port`.
    api_port: int
    # Where people's browsers reach `api_port`, without a slash at the end. Passkeys and providers know it by this name.
    portal_url: str
    # Where devices reach `public_port`, without a slash at the end; every certificate names it.
    public_url: str
    # Where devices reach `enrolment_port`, without a slash at the end.
    enrolment_url: str
    # PEM: the certificate with its chain, and the key, that `enrolment_port` shows.
    enrolment_certificate_file: Path
    enrolment_key_file: Path
    # Of one address to `public_port`; 0 for no limit.
    public_requests_per_second: int
    # That answer at `api_port`; each has rate limits of its own.
    api_processes: int
    # For one of the connections to the database, where all are in use: then it is 503.
    api_database_wait_seconds: float
    # Of one credential, or one address without any, to `api_port`, and of credentials of one address that are not good;
    # 0 for no limit.
    api_requests_per_minute: int
    api_failures_per_minute: int
    # Of all tokens of a tenant, an MSP or the platform together, and of all sign-ins of a person; 0 for no limit.
    api_owner_requests_per_minute: int
    # Of one address to either port at a time; 0 for no limit.
    connections_per_source: int
    # Addresses and networks, comma-separated, whose X-Forwarded-For `api_port` and `public_port` believe.
    trusted_proxies: str
    # Likewise: those whose connections to `enrolment_port` begin with a PROXY header; "" for none.
    enrolment_proxies: str
    # Where keys of new authorities are made, unless their tenant says otherwise.
    authority_key_store: Literal["sealed", "pkcs11"]
    # All three, or none where no authority's key is in a token.
    pkcs11_module: Path | None
    pkcs11_token: str
    pkcs11_pin_file: Path | None
    # What the database may have; near it, budgets of logs are enforced without warning. 0 for no limit.
    database_max_bytes: int
    # Times of the day, of the tenant's time zone, between which rows of logs are deleted.
    retention_window: tuple[time, time]
    export_dir: Path
    # Files of exports are there for so long.
    export_kept_days: int
    # What exports leave of their disk to others.
    export_least_free_bytes: int
    # What exports of a tenant may have together, beside those that go before deletion; 0 for no limit.
    export_tenant_max_bytes: int
    # The server that takes mails; "" for the mailbox of this installation, which hands none on.
    mail_server: str
    mail_server_port: int
    mail_tls: Literal["none", "starttls", "tls"]
    # "" where it asks for none.
    mail_user: str
    mail_password_file: Path | None
    # As people see it.
    mail_from: str
    # Whether anybody may sign up for a trial.
    trials: TrialSettings
    # Whether `up` shows the demo.
    demo: bool

    @property
    def cell_ports(self) -> range:
        """UDP ports of the cell: slot n authenticates on the 2n-th and accounts on the one after it."""
        return range(self.cell_first_port, self.cell_first_port + 2 * self.cell_slots)

    @property
    def http_ports(self) -> range:
        return range(self.api_port, self.api_port + 4)

    @property
    def local_address(self) -> str:
        """Where what listens on `listen_address` is found from this machine."""
        return local_address(self.listen_address)

    @property
    def api_url(self) -> str:
        """From this machine."""
        return f"http://{url_host(self.local_address)}:{self.api_port}"

    @property
    def public_port(self) -> int:
        """TCP, plain HTTP: status and authorities of certificates, SCEP. Nothing of the API answers here."""
        return self.api_port + 1

    @property
    def enrolment_port(self) -> int:
        """TCP, HTTPS: enrolment over secure transport."""
        return self.api_port + 2

    @property
    def mailbox_port(self) -> int:
        """TCP on loopback: takes mails where there is no server for them."""
        return self.api_port + 3

    @property
    def enrolment_dir(self) -> Path:
        """Where the enrolment process keeps what it makes itself."""
        return enrolment_dir(self.var_dir)

    @property
    def mailbox_dir(self) -> Path:
        return self.var_dir / "mail"

    @property
    def mail_host(self) -> str:
        return self.mail_server or "127.0.0.1"

    @property
    def mail_port(self) -> int:
        return self.mail_server_port if self.mail_server else self.mailbox_port

    @property
    def link_url(self) -> str:
        """Where links to certificates lead: they carry keys, so over plain HTTP within this machine alone."""
        parts = urlsplit(self.public_url)
        plain = parts.scheme == "http" and parts.hostname not in _LOOPBACK
        return self.enrolment_url if plain else self.public_url

    @property
    def verifier_port(self) -> int:
        """UDP on loopback, where radiusd asks about passwords; the one before it is for its status."""
        return self.cell_ports.stop + 1


def enrolment_dir(var_dir: Path) -> Path:
    return var_dir / "keys" / "enrolment"


def url_host(address: str) -> str:
    """The address as it stands in a URL (RFC 3986 3.2.2)."""
    return f"[{address}]" if ":" in address else address


class SettingsError(Exception):
    """The environment does not make valid settings; `mistakes` names each variable and what it must be."""

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(self.mistakes))


class _EnvironmentReader:
    """Reads one variable after the other and keeps what was wrong; a bad value yields the default: reading goes on."""

    def __init__(self, environment: Mapping[str, str], required: Collection[str]) -> None:
        self._environment = environment
        self._required = required
        self._asked = set(_NOT_SETTINGS)
        self.mistakes: list[str] = []

    def _raw(self, name: str) -> str | None:
        self._asked.add(name)
        value = self._environment.get(PREFIX + name)
        if value is None and name in self._required:
            self._refuse(name, "is not set and this process needs it")
        return value

    def _refuse(self, name: str, why: str) -> None:
        self.mistakes.append(f"{PREFIX}{name} {why}")

    def refuse_unknown(self) -> None:
        """After all were read: a name that is written wrong, or of another version, is not passed over in silence."""
        given = {name.removeprefix(PREFIX) for name in self._environment if name.startswith(PREFIX)}
        for name in sorted(given - self._asked):
            near = difflib.get_close_matches(name, self._asked, n=1)
            self._refuse(name, "is no setting" + (f"; is {PREFIX}{near[0]} meant?" if near else ""))

    def text(self, name: str, default: str, pattern: str, what: str) -> str:
        value = self._raw(name)
        if value is None:
            return default
        if not re.fullmatch(pattern, value):
            self._refuse(name, f"is {value!r} but must be {what}")
            return default
        return value

    def is_given(self, name: str) -> bool:
        return PREFIX + name in self._environment

    def url(self, name: str, *schemes: str) -> str:
        return self.text(name, "", rf"({'|'.join(schemes)})://\S+", f"a {schemes[0]}:// address")

    def number(self, name: str, default: int, low: int, high: int) -> int:
        return int(self.decimal(name, default, low, high, whole=True))

    def decimal(self, name: str, default: float, low: float, high: float, *, whole: bool = False) -> float:
        value = self._raw(name)
        if value is None:
            return default
        if (
            not re.fullmatch(r"\d{1,18}" if whole else r"\d{1,18}(\.\d{1,6})?", value)
            or not low <= float(value) <= high
        ):
            kind = "a whole number" if whole else "a number"
            self._refuse(name, f"is {value!r} but must be {kind} from {low} to {high}")
            return default
        return int(value) if whole else float(value)

    def folder(self, name: str, default: Path) -> Path:
        value = self._raw(name)
        if value is None:
            return default
        if not Path(value).is_absolute():
            self._refuse(name, f"is {value!r} but must be an absolute path")
            return default
        return Path(value)

    def networks(self, name: str, default: str) -> str:
        """Addresses and networks, as they are written."""
        value = self._raw(name)
        if value is None or value == default:
            return default
        try:
            return ",".join(str(ipaddress.ip_network(part.strip())) for part in value.split(","))
        except ValueError:
            self._refuse(name, f"is {value!r} but must be addresses or networks (10.0.0.0/8), comma-separated")
            return default

    def file(self, name: str) -> Path | None:
        return None if self._raw(name) is None else self.folder(name, Path("/nonexistent"))

    def address(self, name: str, default: str) -> str:
        value = self._raw(name)
        if value is None:
            return default
        try:
            return str(ipaddress.ip_address(value))
        except ValueError:
            self._refuse(name, f"is {value!r} but must be an IPv4 or IPv6 address")
            return default

    def window(self, name: str, default: tuple[time, time]) -> tuple[time, time]:
        value = self._raw(name)
        if value is None:
            return default
        if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d", value):
            self._refuse(name, f"is {value!r} but must be two times of the day such as 01:00-05:00")
            return default
        begins, ends = value.split("-")
        return time.fromisoformat(begins), time.fromisoformat(ends)

    def reach(self, name: str) -> OutboundReach:
        value = self._raw(name)
        try:
            return OutboundReach.parse(value or "")
        except ValueError as exc:
            self._refuse(name, f"must be networks such as '10.1.0.0/16 !10.1.9.0/24' ({exc})")
            return DEFAULT_REACH


def load_settings(environment: Mapping[str, str] | None = None, *, required: Collection[str] = ()) -> Settings:
    """Settings from `environment` (the process's own by default).

    `required` names variables without their prefix ("DATABASE_CELL_URL"); VAR_DIR always is.
    Raises SettingsError with every mistake.
    """
    reader = _EnvironmentReader(os.environ if environment is None else environment, {"VAR_DIR", *required})
    var_dir = reader.folder("VAR_DIR", Path("/nonexistent"))
    cell_name = reader.text("CELL_NAME", "cell-1", r"[a-z0-9][a-z0-9-]{0,62}", "lower-case letters, digits and hyphens")
    api_port = reader.number("API_PORT", 8460, 1, 65532)
    listen_address = reader.address("LISTEN_ADDRESS", "127.0.0.1")
    demo = reader.text("DEMO", "no", "yes|no", "'yes' or 'no'") == "yes"
    # Behind a proxy the portal has an address of its own.
    is_private = listen_address in _LOOPBACK and not reader.is_given("PORTAL_URL")
    own = enrolment_dir(var_dir)
    settings = Settings(
        var_dir=var_dir,
        database_url=reader.url("DATABASE_URL", "postgresql"),
        database_owner_url=reader.url("DATABASE_OWNER_URL", "postgresql"),
        database_cell_url=reader.url("DATABASE_CELL_URL", "postgresql"),
        database_worker_url=reader.url("DATABASE_WORKER_URL", "postgresql"),
        redis_url=reader.url("REDIS_URL", "redis", "rediss", "unix"),
        master_key_file=reader.folder("MASTER_KEY_FILE", var_dir / "keys" / "master.key"),
        listen_address=listen_address,
        radius_host=reader.text("RADIUS_HOST", "", r"[A-Za-z0-9.:-]{1,253}", "a host name or an address")
        or local_address(listen_address),
        cell_name=cell_name,
        # radiusd watches at most 1,024 descriptors with select(); a slot takes three (two UDP, RadSec).
        cell_slots=reader.number("CELL_SLOTS", 32, 1, 300),
        cell_first_port=reader.number("CELL_FIRST_PORT", 18120, 1024, 65535),
        cell_dir=reader.folder("CELL_DIR", var_dir / "cells" / cell_name),
        cell_memory_bytes=reader.number("CELL_MEMORY_BYTES", 0, 0, 1 << 50),
        cell_tenant_packets_per_second=reader.number(
            "CELL_TENANT_PACKETS_PER_SECOND", 1_000 * (os.cpu_count() or 1), 0, 1_000_000
        ),
        journal_sync=cast(
            Literal["50ms", "always"], reader.text("JOURNAL_SYNC", "50ms", "50ms|always", "'50ms' or 'always'")
        ),
        journal_max_bytes=reader.number("JOURNAL_MAX_BYTES", 4 << 30, 1 << 20, 1 << 50),
        # radiusd's own limit for reject_delay is 10 s. It ignores fractions of a second.
        reject_delay_seconds=reader.number("REJECT_DELAY_SECONDS", 1, 0, 10),
        outbound_reach=reader.reach("OUTBOUND_NETWORKS"),
        api_port=api_port,
        portal_url=reader.url("PORTAL_URL", "http", "https").rstrip("/")
        or _default_portal_url(listen_address, api_port),
        public_url=reader.url("PUBLIC_URL", "http", "https").rstrip("/")
        or f"http://{url_host(listen_address)}:{api_port + 1}",
        enrolment_url=reader.url("ENROLMENT_URL", "https").rstrip("/")
        or f"https://{url_host(listen_address)}:{api_port + 2}",
        enrolment_certificate_file=reader.folder("ENROLMENT_CERTIFICATE_FILE", own / "enrolment.pem"),
        enrolment_key_file=reader.folder("ENROLMENT_KEY_FILE", own / "enrolment.key"),
        # A whole site may be behind one address, and its devices come back at once after a power cut.
        public_requests_per_second=reader.number("PUBLIC_REQUESTS_PER_SECOND", 200, 0, 1_000_000),
        api_processes=reader.number("API_PROCESSES", 1, 1, 64),
        api_database_wait_seconds=reader.decimal("API_DATABASE_WAIT_SECONDS", 5, 0.1, 60),
        api_requests_per_minute=reader.number("API_REQUESTS_PER_MINUTE", 6_000, 0, 1_000_000),
        # Whole companies are behind one address: no good credential is refused for the others' sake.
        api_failures_per_minute=reader.number("API_FAILURES_PER_MINUTE", 60, 0, 1_000_000),
        # As two credentials that ask all they may.
        api_owner_requests_per_minute=reader.number("API_OWNER_REQUESTS_PER_MINUTE", 12_000, 0, 1_000_000),
        connections_per_source=reader.number("CONNECTIONS_PER_SOURCE", 50, 0, 1_000_000),
        trusted_proxies=reader.networks("TRUSTED_PROXIES", "127.0.0.1"),
        enrolment_proxies=reader.networks("ENROLMENT_PROXIES", ""),
        authority_key_store=cast(
            Literal["sealed", "pkcs11"],
            reader.text("AUTHORITY_KEY_STORE", "sealed", "sealed|pkcs11", "'sealed' or 'pkcs11'"),
        ),
        pkcs11_module=reader.file("PKCS11_MODULE"),
        pkcs11_token=reader.text("PKCS11_TOKEN", "", r"[ -~]{1,32}", "the label of a token, 1 to 32 characters"),
        pkcs11_pin_file=reader.file("PKCS11_PIN_FILE"),
        database_max_bytes=reader.number("DATABASE_MAX_BYTES", 0, 0, 1 << 50),
        retention_window=reader.window("RETENTION_WINDOW", (time(1), time(5))),
        export_dir=reader.folder("EXPORT_DIR", var_dir / "exports"),
        export_kept_days=reader.number("EXPORT_KEPT_DAYS", 14, 1, 365),
        export_least_free_bytes=reader.number("EXPORT_LEAST_FREE_BYTES", 1 << 30, 0, 1 << 50),
        export_tenant_max_bytes=reader.number("EXPORT_TENANT_MAX_BYTES", 20 << 30, 0, 1 << 50),
        mail_server=reader.text("MAIL_HOST", "", r"[A-Za-z0-9.:-]{1,253}", "a host name or an address"),
        mail_server_port=reader.number("MAIL_PORT", 587, 1, 65535),
        mail_tls=_read_mail_tls(reader),
        mail_user=reader.text("MAIL_USER", "", r"[!-~]{1,200}", "printable characters"),
        mail_password_file=reader.file("MAIL_PASSWORD_FILE"),
        mail_from=reader.text(
            "MAIL_FROM",
            "Admit <admit@admit.example>",
            r"[^<>@\r\n]{0,80}<?[A-Za-z0-9._+-]{1,64}@[A-Za-z0-9.-]{1,190}>?",
            "an address such as 'Admit <admit@example.com>'",
        ),
        trials=_read_trials(reader, is_tried_out=demo and is_private),
        demo=demo,
    )
    reader.refuse_unknown()
    reader.mistakes += _find_contradictions(settings)
    if reader.mistakes:
        raise SettingsError(reader.mistakes)
    return settings


def _read_mail_tls(reader: _EnvironmentReader) -> Literal["none", "starttls", "tls"]:
    usual = "starttls" if reader.is_given("MAIL_HOST") else "none"
    found = reader.text("MAIL_TLS", usual, "none|starttls|tls", "'none', 'starttls' or 'tls'")
    return cast(Literal["none", "starttls", "tls"], found)


def _read_trials(reader: _EnvironmentReader, *, is_tried_out: bool) -> TrialSettings:
    usual = "yes" if is_tried_out else "no"
    return TrialSettings(
        offered=reader.text("TRIALS", usual, "yes|no", "'yes' or 'no'") == "yes",
        days=reader.number("TRIAL_DAYS", 14, 1, 365),
        grace_days=reader.number("TRIAL_GRACE_DAYS", 14, 1, 365),
        endpoints=reader.number("TRIAL_ENDPOINTS", 100, 1, 10_000_000),
        authentications_a_day=reader.number("TRIAL_AUTHENTICATIONS_A_DAY", 20_000, 1, 1_000_000_000),
        a_day_of_address=reader.number("TRIAL_SIGN_UPS_OF_ADDRESS", 5, 1, 1_000_000),
        a_day_of_domain=reader.number("TRIAL_SIGN_UPS_OF_DOMAIN", 10, 1, 1_000_000),
        a_day=reader.number("TRIAL_SIGN_UPS", 100, 1, 1_000_000),
        most=reader.number("TRIAL_TENANTS", 20, 1, 1_000_000),
    )


def _default_portal_url(listen_address: str, port: int) -> str:
    # Passkeys are of a name, and of this one browsers know that it is their own machine (WebAuthn 5.1.2).
    host = "localhost" if listen_address in _LOOPBACK else url_host(listen_address)
    return f"http://{host}:{port}"


def _find_contradictions(settings: Settings) -> Iterator[str]:
    """Of settings that are right one by one."""
    if settings.verifier_port > 65535:
        yield (
            f"{PREFIX}CELL_FIRST_PORT and {PREFIX}CELL_SLOTS need the ports up to {settings.verifier_port},"
            " but the last port is 65535"
        )
    if settings.cell_slots > _MAX_DUAL_STACK_SLOTS and len(bound_addresses(settings.listen_address)) > 1:
        yield (
            f"{PREFIX}LISTEN_ADDRESS '::' takes two sockets for each port: {PREFIX}CELL_SLOTS may be at most"
            f" {_MAX_DUAL_STACK_SLOTS} with it"
        )
    if bool(settings.mail_user) != bool(settings.mail_password_file):
        yield f"{PREFIX}MAIL_USER and {PREFIX}MAIL_PASSWORD_FILE go together"
    if settings.mail_user and settings.mail_tls == "none":
        yield f"{PREFIX}MAIL_USER would send its password in the clear: set {PREFIX}MAIL_TLS to 'starttls' or 'tls'"
    token = (settings.pkcs11_module, settings.pkcs11_token, settings.pkcs11_pin_file)
    if any(token) != all(token) or (settings.authority_key_store == "pkcs11" and not all(token)):
        yield (
            f"{PREFIX}PKCS11_MODULE, {PREFIX}PKCS11_TOKEN and {PREFIX}PKCS11_PIN_FILE go together,"
            f" and {PREFIX}AUTHORITY_KEY_STORE 'pkcs11' needs them"
        )
