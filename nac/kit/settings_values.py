"""The values of settings, as processes use them. `nac.kit.settings` reads them and re-exports these classes."""

from dataclasses import dataclass
from datetime import time
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from nac.kit.listen_addresses import local_address
from nac.kit.outbound.reach import OutboundReach

LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSettings:
    """Limits of trials. The meaning of each field is at its variable in nac/kit/settings.py."""

    offered: bool
    days: int
    grace_days: int
    endpoints: int
    authentications_a_day: int
    a_day_of_address: int
    a_day_of_domain: int
    a_day: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The meaning of each field is at its variable in nac/kit/settings.py."""

    var_dir: Path
    database_url: str
    database_owner_url: str
    database_cell_url: str
    database_worker_url: str
    redis_url: str
    master_key_file: Path
    listen_address: str
    radius_host: str
    cell_name: str
    cell_slots: int
    cell_first_port: int
    cell_dir: Path
    cell_memory_bytes: int
    cell_tenant_packets_per_second: int
    journal_sync: Literal["50ms", "always"]
    journal_max_bytes: int
    reject_delay_seconds: float
    outbound_reach: OutboundReach
    api_port: int
    portal_url: str
    public_url: str
    enrolment_url: str
    enrolment_certificate_file: Path
    enrolment_key_file: Path
    public_requests_per_second: int
    api_processes: int
    api_database_wait_seconds: float
    api_requests_per_minute: int
    api_failures_per_minute: int
    api_owner_requests_per_minute: int
    connections_per_source: int
    trusted_proxies: str
    enrolment_proxies: str
    authority_key_store: Literal["sealed", "pkcs11"]
    pkcs11_module: Path | None
    pkcs11_token: str
    pkcs11_pin_file: Path | None
    database_max_bytes: int
    retention_window: tuple[time, time]
    export_dir: Path
    export_kept_days: int
    export_least_free_bytes: int
    export_tenant_max_bytes: int
    mail_server: str
    mail_server_port: int
    mail_tls: Literal["none", "starttls", "tls"]
    mail_user: str
    mail_password_file: Path | None
    mail_from: str
    trials: TrialSettings
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
        plain = parts.scheme == "http" and parts.hostname not in LOOPBACK
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
