"""Values of the settings of a process. `nac.kit.settings` reads the values and re-exports these classes."""

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
    """Limits of trials. The variables in nac/kit/settings.py describe the fields."""

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
    """Settings of a process. The variables in nac/kit/settings.py describe the fields."""

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
        """UDP ports of the cell.

        The port pair (slot) n uses port 2n of the range for authentication, and port 2n + 1 for accounting.
        """
        return range(self.cell_first_port, self.cell_first_port + 2 * self.cell_slots)

    @property
    def http_ports(self) -> range:
        return range(self.api_port, self.api_port + 4)

    @property
    def local_address(self) -> str:
        """Address at which this machine reaches a service that listens on `listen_address`."""
        return local_address(self.listen_address)

    @property
    def api_url(self) -> str:
        """URL at which this machine reaches the API."""
        return f"http://{url_host(self.local_address)}:{self.api_port}"

    @property
    def public_port(self) -> int:
        """TCP port for OCSP, CRLs, CA certificates and SCEP, without TLS. This port does not serve the API."""
        return self.api_port + 1

    @property
    def enrolment_port(self) -> int:
        """TCP port for enrolment over HTTPS."""
        return self.api_port + 2

    @property
    def mailbox_port(self) -> int:
        """TCP port on loopback. If no mail server is configured, Admit sends mails to this port and stores them."""
        return self.api_port + 3

    @property
    def enrolment_dir(self) -> Path:
        """Folder for files that the enrolment process creates."""
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
        """Base URL of enrolment links. Links carry private keys, so plain HTTP is used only within this machine."""
        parts = urlsplit(self.public_url)
        plain = parts.scheme == "http" and parts.hostname not in LOOPBACK
        return self.enrolment_url if plain else self.public_url

    @property
    def verifier_port(self) -> int:
        """UDP port on loopback to which radiusd sends requests for password checks. The previous port serves radiusd's
        status."""
        return self.cell_ports.stop + 1


def enrolment_dir(var_dir: Path) -> Path:
    return var_dir / "keys" / "enrolment"


def url_host(address: str) -> str:
    """Return the address in the notation of URLs (RFC 3986 3.2.2): an IPv6 address is in brackets."""
    return f"[{address}]" if ":" in address else address
