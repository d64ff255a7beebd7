"""Settings of every process, from ADMIT_* environment variables. A process parses the settings once and reports all
mistakes.

The supervisor or the container sets the environment of a process. The command line reads the variables from
`var/admit.env`. A process lists the settings that it requires. All other settings may be missing. A cell, for
example, does not need the URL for migrations.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from datetime import time
from pathlib import Path
from typing import Literal, cast

from nac.kit.listen_addresses import bound_addresses, local_address
from nac.kit.settings_reader import PREFIX, EnvironmentReader, SettingsError, Variable
from nac.kit.settings_values import LOOPBACK, Settings, TrialSettings, enrolment_dir, url_host

__all__ = [
    "PREFIX",
    "Settings",
    "SettingsError",
    "TrialSettings",
    "enrolment_dir",
    "load_settings",
    "url_host",
    "variables",
]
# Maximum number of slots if each port has an IPv4 and an IPv6 socket. With RadSec, a slot then uses five descriptors,
# and radiusd can watch 1,024 descriptors.
_MAX_DUAL_STACK_SLOTS = 190


def load_settings(environment: Mapping[str, str] | None = None, *, required: Collection[str] = ()) -> Settings:
    """Load the settings from `environment`. The default is the environment of the process.

    `required` lists variables without the prefix, such as "DATABASE_CELL_URL". VAR_DIR is always required. Raises
    SettingsError with all mistakes.
    """
    reader = EnvironmentReader(os.environ if environment is None else environment, {"VAR_DIR", *required})
    settings = _read(reader)
    reader.refuse_unknown()
    reader.mistakes += _find_contradictions(settings)
    if reader.mistakes:
        raise SettingsError(reader.mistakes)
    return settings


def variables(var_dir: Path) -> tuple[Variable, ...]:
    """Describe all variables. Some defaults are paths in `var_dir`, the data folder of the installation."""
    reader = EnvironmentReader({f"{PREFIX}VAR_DIR": str(var_dir)}, ())
    _read(reader)
    return tuple(reader.variables)


def _read(reader: EnvironmentReader) -> Settings:
    var_dir = reader.folder(
        "VAR_DIR",
        Path("/nonexistent"),
        about="Folder for all data, keys and logs. To choose another folder, set this variable in your shell for each "
        "command.",
        default_text="`var` in the clone",
    )
    cell_name = reader.text(
        "CELL_NAME",
        "cell-1",
        r"[a-z0-9][a-z0-9-]{0,62}",
        "lower-case letters, digits and hyphens",
        about="Name of the cell. Each cell of the platform needs a unique name.",
    )
    api_port = reader.number(
        "API_PORT", 8460, 1, 65532, about="First of four TCP ports: API and portal, public, enrolment, mailbox."
    )
    listen_address = reader.address(
        "LISTEN_ADDRESS", "127.0.0.1", about="Address for RADIUS and HTTP. `::` listens on all IPv6 and IPv4 addresses."
    )
    demo = reader.text(
        "DEMO",
        "no",
        "yes|no",
        "'yes' or 'no'",
        about="Whether the start of Admit creates and tests the demo tenants. The first start on a machine sets `yes`.",
    )
    # With a portal URL, Admit may be behind a proxy, so that other machines have access although Admit listens on
    # loopback.
    is_private = listen_address in LOOPBACK and not reader.is_given("PORTAL_URL")
    own = enrolment_dir(var_dir)
    return Settings(
        var_dir=var_dir,
        database_url=reader.url(
            "DATABASE_URL",
            "postgresql",
            about="URL of PostgreSQL for the role `admit_app` (API, worker) or `admit_public` (public, enrolment)."
            " If all processes run on one machine, Admit sets all four database URLs when it starts.",
        ),
        database_owner_url=reader.url(
            "DATABASE_OWNER_URL",
            "postgresql",
            about="URL of PostgreSQL for the role `admit_owner`, which runs migrations.",
        ),
        database_cell_url=reader.url(
            "DATABASE_CELL_URL", "postgresql", about="URL of PostgreSQL for the role `admit_cell` of a cell's agent."
        ),
        database_worker_url=reader.url(
            "DATABASE_WORKER_URL", "postgresql", about="URL of PostgreSQL for the role `admit_worker` of the worker."
        ),
        redis_url=reader.url(
            "REDIS_URL",
            "redis",
            "rediss",
            "unix",
            about="URL of Redis. If all processes run on one machine, Admit sets this URL when it starts."
            " Without Redis, the agent sends no live events.",
        ),
        master_key_file=reader.folder(
            "MASTER_KEY_FILE",
            var_dir / "keys" / "master.key",
            about="File with the key that decrypts stored secrets and private keys. Back up this file.",
        ),
        listen_address=listen_address,
        radius_host=reader.text(
            "RADIUS_HOST",
            "",
            r"[A-Za-z0-9.:-]{1,253}",
            "a host name or an address",
            about="Name or address at which switches and access points reach the cells.",
            default_text="`ADMIT_LISTEN_ADDRESS`; a loopback address instead of `::` or `0.0.0.0`",
        )
        or local_address(listen_address),
        cell_name=cell_name,
        # radiusd watches at most 1,024 descriptors with select(). A slot uses three: two for UDP, one for RadSec.
        cell_slots=reader.number(
            "CELL_SLOTS",
            32,
            1,
            300,
            about="Number of tenants that fit in the cell. At most 190 if `ADMIT_LISTEN_ADDRESS` is `::`.",
        ),
        cell_first_port=reader.number(
            "CELL_FIRST_PORT",
            18120,
            1024,
            65535,
            about="First UDP port of the cell. Each tenant uses two ports: authentication, then accounting."
            " The verifier uses the two ports after the ports of the tenants.",
        ),
        cell_dir=reader.folder(
            "CELL_DIR",
            var_dir / "cells" / cell_name,
            about="Folder for the cell's replica, journal and radiusd configuration. In the default,"
            " `cell-1` stands for `ADMIT_CELL_NAME`.",
        ),
        cell_memory_bytes=reader.number(
            "CELL_MEMORY_BYTES",
            0,
            0,
            1 << 50,
            about="Memory limit of radiusd. If radiusd exceeds the limit, the agent replaces radiusd."
            " 0: half of the memory of the machine or container.",
        ),
        # Measured on 2 cores with 40,000 packets/s at one tenant. With this limit, p99 of another tenant is 4.6 ms,
        # without it 427 ms.
        cell_tenant_packets_per_second=reader.number(
            "CELL_TENANT_PACKETS_PER_SECOND",
            1_000 * (os.cpu_count() or 1),
            0,
            1_000_000,
            about="Maximum number of Access-Requests from one tenant per second. The limit for Accounting-Requests is"
            " twice as high. radiusd drops packets above the limit. 0: no limit.",
            default_text="`1000` for each CPU core",
        ),
        journal_sync=cast(
            Literal["50ms", "always"],
            reader.text(
                "JOURNAL_SYNC",
                "50ms",
                "50ms|always",
                "'50ms' or 'always'",
                about="When the cell syncs the journals to disk: every 50 ms, or after each record.",
            ),
        ),
        journal_max_bytes=reader.number(
            "JOURNAL_MAX_BYTES",
            4 << 30,
            1 << 20,
            1 << 50,
            about="Size limit of each journal of the cell. The cell has one journal for authentication and one journal"
            " for accounting.",
        ),
        # The limit of radiusd for reject_delay is 10 s. radiusd ignores fractions of a second.
        reject_delay_seconds=reader.number(
            "REJECT_DELAY_SECONDS", 1, 0, 10, about="Delay of an Access-Reject in seconds."
        ),
        outbound_reach=reader.reach(
            "OUTBOUND_NETWORKS",
            about="Networks to which Admit may connect for tenants. `!` before a network denies connections to this"
            " network. This setting overrides the default rules. See [outbound connections](outbound-connections.md).",
        ),
        api_port=api_port,
        portal_url=reader.url(
            "PORTAL_URL",
            "http",
            "https",
            about="URL at which browsers reach `ADMIT_API_PORT`. Set this URL before anyone adds a passkey."
            " See [sign-in](../how-to/sign-in.md).",
            default_text="`http://<ADMIT_LISTEN_ADDRESS>:<ADMIT_API_PORT>`; `localhost` for a loopback address",
        ).rstrip("/")
        or _default_portal_url(listen_address, api_port),
        public_url=reader.url(
            "PUBLIC_URL",
            "http",
            "https",
            about="URL at which devices reach the public port. Certificates contain this URL, so set the URL before "
            "the first device enrols.",
            default_text="`http://<ADMIT_LISTEN_ADDRESS>:<ADMIT_API_PORT + 1>`",
        ).rstrip("/")
        or f"http://{url_host(listen_address)}:{api_port + 1}",
        enrolment_url=reader.url(
            "ENROLMENT_URL",
            "https",
            about="URL at which devices reach the enrolment port.",
            default_text="`https://<ADMIT_LISTEN_ADDRESS>:<ADMIT_API_PORT + 2>`",
        ).rstrip("/")
        or f"https://{url_host(listen_address)}:{api_port + 2}",
        enrolment_certificate_file=reader.folder(
            "ENROLMENT_CERTIFICATE_FILE",
            own / "enrolment.pem",
            about="PEM file with the certificate of the enrolment port and the chain of the certificate.",
        ),
        enrolment_key_file=reader.folder(
            "ENROLMENT_KEY_FILE",
            own / "enrolment.key",
            about="PEM file with the private key of `ADMIT_ENROLMENT_CERTIFICATE_FILE`.",
        ),
        # All devices of a site can share one address. After a power failure, they connect at the same time.
        public_requests_per_second=reader.number(
            "PUBLIC_REQUESTS_PER_SECOND",
            200,
            0,
            1_000_000,
            about="Maximum number of requests from one address per second, at the public and at the enrolment port."
            " 0: no limit.",
        ),
        api_processes=reader.number(
            "API_PROCESSES",
            1,
            1,
            64,
            about="Number of processes that serve `ADMIT_API_PORT`. Each process counts rate limits separately.",
        ),
        api_database_wait_seconds=reader.decimal(
            "API_DATABASE_WAIT_SECONDS",
            5,
            0.1,
            60,
            about="Seconds that a request waits for a database connection or a lock. After this time, the API responds"
            " with 503.",
        ),
        api_requests_per_minute=reader.number(
            "API_REQUESTS_PER_MINUTE",
            6_000,
            0,
            1_000_000,
            about="Maximum number of API requests per minute for each credential. For requests without a"
            " credential, the limit applies to each address. 0: no limit.",
        ),
        # A whole company can share one address. A valid credential still works if other callers exceed this limit.
        api_failures_per_minute=reader.number(
            "API_FAILURES_PER_MINUTE",
            60,
            0,
            1_000_000,
            about="Maximum number of API requests per minute with an invalid credential from one address. 0: no limit.",
        ),
        # The default is twice the default limit of one credential.
        api_owner_requests_per_minute=reader.number(
            "API_OWNER_REQUESTS_PER_MINUTE",
            12_000,
            0,
            1_000_000,
            about="Maximum number of API requests per minute for each owner of credentials. The owner of tokens is a"
            " tenant, an MSP or the platform. The owner of sign-ins is a person. 0: no limit.",
        ),
        connections_per_source=reader.number(
            "CONNECTIONS_PER_SOURCE",
            50,
            0,
            1_000_000,
            about="Maximum number of simultaneous connections from one address, at the public and at the"
            " enrolment port. 0: no limit.",
        ),
        trusted_proxies=reader.networks(
            "TRUSTED_PROXIES",
            "127.0.0.1",
            about="Proxies whose `X-Forwarded-For` header the API and the public port trust.",
        ),
        enrolment_proxies=reader.networks(
            "ENROLMENT_PROXIES",
            "",
            about="Load balancers whose connections to the enrolment port begin with a PROXY header.",
        ),
        authority_key_store=cast(
            Literal["sealed", "pkcs11"],
            reader.text(
                "AUTHORITY_KEY_STORE",
                "sealed",
                "sealed|pkcs11",
                "'sealed' or 'pkcs11'",
                about="Store for keys of new authorities: encrypted in the database, or in a PKCS#11 token."
                " A tenant can override this setting. `pkcs11` requires the three settings `ADMIT_PKCS11_...`.",
            ),
        ),
        pkcs11_module=reader.file(
            "PKCS11_MODULE",
            about="Library of the PKCS#11 token. Set all three settings `ADMIT_PKCS11_...`, or none of them.",
        ),
        pkcs11_token=reader.text(
            "PKCS11_TOKEN",
            "",
            r"[ -~]{1,32}",
            "the label of a token, 1 to 32 characters",
            about="Label of the PKCS#11 token.",
        ),
        pkcs11_pin_file=reader.file(
            "PKCS11_PIN_FILE", about="File whose first line is the user PIN of the PKCS#11 token."
        ),
        database_max_bytes=reader.number(
            "DATABASE_MAX_BYTES",
            0,
            0,
            1 << 50,
            about="Size limit of the database. If the database reaches 95 % of the limit, Admit enforces the size"
            " limits of tenants' logs immediately, instead of a week after a warning. 0: no limit.",
        ),
        retention_window=reader.window(
            "RETENTION_WINDOW",
            (time(1), time(5)),
            about="Time of day in which Admit deletes old log rows, in the tenant's time zone.",
        ),
        export_dir=reader.folder("EXPORT_DIR", var_dir / "exports", about="Folder for exported logs."),
        export_kept_days=reader.number(
            "EXPORT_KEPT_DAYS", 14, 1, 365, about="Days after which Admit deletes exported files."
        ),
        export_least_free_bytes=reader.number(
            "EXPORT_LEAST_FREE_BYTES",
            1 << 30,
            0,
            1 << 50,
            about="Disk space that exports leave free. If less disk space is free, exports wait.",
        ),
        export_tenant_max_bytes=reader.number(
            "EXPORT_TENANT_MAX_BYTES",
            20 << 30,
            0,
            1 << 50,
            about="Size limit of all exports of one tenant together. 0: no limit. The limit does not apply to"
            " exports that retention requires before it deletes a log.",
        ),
        mail_server=reader.text(
            "MAIL_HOST",
            "",
            r"[A-Za-z0-9.:-]{1,253}",
            "a host name or an address",
            about="Mail server. Without a mail server, Admit stores mails, but does not send them"
            " ([mail](../how-to/trials.md#mail)).",
        ),
        mail_server_port=reader.number("MAIL_PORT", 587, 1, 65535, about="TCP port of the mail server."),
        mail_tls=_read_mail_tls(reader),
        mail_user=reader.text(
            "MAIL_USER",
            "",
            r"[!-~]{1,200}",
            "printable characters",
            about="User name at the mail server. A user name requires `ADMIT_MAIL_PASSWORD_FILE` and TLS.",
        ),
        mail_password_file=reader.file("MAIL_PASSWORD_FILE", about="File with the password of `ADMIT_MAIL_USER`."),
        mail_from=reader.text(
            "MAIL_FROM",
            "Admit <admit@admit.example>",
            r"[^<>@\r\n]{0,80}<?[A-Za-z0-9._+-]{1,64}@[A-Za-z0-9.-]{1,190}>?",
            "an address such as 'Admit <admit@example.com>'",
            about="Sender of mails.",
        ),
        trials=_read_trials(reader, is_tried_out=demo == "yes" and is_private),
        demo=demo == "yes",
    )


def _read_mail_tls(reader: EnvironmentReader) -> Literal["none", "starttls", "tls"]:
    usual = "starttls" if reader.is_given("MAIL_HOST") else "none"
    found = reader.text(
        "MAIL_TLS",
        usual,
        "none|starttls|tls",
        "'none', 'starttls' or 'tls'",
        about="Encryption of the connection to the mail server.",
        default_text="`starttls` with `ADMIT_MAIL_HOST`, otherwise `none`",
    )
    return cast(Literal["none", "starttls", "tls"], found)


def _read_trials(reader: EnvironmentReader, *, is_tried_out: bool) -> TrialSettings:
    offered = reader.text(
        "TRIALS",
        "yes" if is_tried_out else "no",
        "yes|no",
        "'yes' or 'no'",
        about="Whether anyone can sign up for a trial ([trials](../how-to/trials.md)).",
        default_text="`yes` if `ADMIT_DEMO` is `yes`, `ADMIT_LISTEN_ADDRESS` is a loopback address and"
        " `ADMIT_PORTAL_URL` is not set; otherwise `no`",
    )
    return TrialSettings(
        offered=offered == "yes",
        days=reader.number("TRIAL_DAYS", 14, 1, 365, about="Number of days until a trial ends."),
        grace_days=reader.number(
            "TRIAL_GRACE_DAYS", 14, 1, 365, about="Days from the end of a trial to the deletion of the trial."
        ),
        endpoints=reader.number(
            "TRIAL_ENDPOINTS", 100, 1, 10_000_000, about="Maximum number of approved and blocked devices of a trial."
        ),
        authentications_a_day=reader.number(
            "TRIAL_AUTHENTICATIONS_A_DAY",
            20_000,
            1,
            1_000_000_000,
            about="Maximum number of authentications of a trial per day. If a trial exceeds the limit, Admit sends a"
            " warning by mail. If the trial exceeds the limit again a day later, Admit suspends the trial.",
        ),
        a_day_of_address=reader.number(
            "TRIAL_SIGN_UPS_OF_ADDRESS",
            5,
            1,
            1_000_000,
            about="Maximum number of sign-ups from one source address per day.",
        ),
        a_day_of_domain=reader.number(
            "TRIAL_SIGN_UPS_OF_DOMAIN",
            10,
            1,
            1_000_000,
            about="Maximum number of confirmed sign-ups from one mail domain per day.",
        ),
        a_day=reader.number("TRIAL_SIGN_UPS", 100, 1, 1_000_000, about="Maximum number of confirmed sign-ups per day."),
        most=reader.number(
            "TRIAL_TENANTS", 20, 1, 1_000_000, about="Maximum number of trials that exist at the same time."
        ),
    )


def _default_portal_url(listen_address: str, port: int) -> str:
    # Browsers allow passkeys only for a host name. Browsers trust `localhost` without HTTPS (WebAuthn 5.1.2).
    host = "localhost" if listen_address in LOOPBACK else url_host(listen_address)
    return f"http://{host}:{port}"


def _find_contradictions(settings: Settings) -> Iterator[str]:
    """Yield a mistake for each contradiction between valid settings."""
    if settings.verifier_port > 65535:
        yield (
            f"{PREFIX}CELL_FIRST_PORT and {PREFIX}CELL_SLOTS need the ports up to {settings.verifier_port},"
            " but the last port is 65535"
        )
    if settings.cell_slots > _MAX_DUAL_STACK_SLOTS and len(bound_addresses(settings.listen_address)) > 1:
        yield (
            f"{PREFIX}LISTEN_ADDRESS '::' needs two sockets per port: {PREFIX}CELL_SLOTS must be at most"
            f" {_MAX_DUAL_STACK_SLOTS}"
        )
    if bool(settings.mail_user) != bool(settings.mail_password_file):
        yield f"{PREFIX}MAIL_USER and {PREFIX}MAIL_PASSWORD_FILE must be set together"
    if settings.mail_user and settings.mail_tls == "none":
        yield f"{PREFIX}MAIL_USER would send its password in the clear: set {PREFIX}MAIL_TLS to 'starttls' or 'tls'"
    token = (settings.pkcs11_module, settings.pkcs11_token, settings.pkcs11_pin_file)
    if any(token) != all(token) or (settings.authority_key_store == "pkcs11" and not all(token)):
        yield (
            f"{PREFIX}PKCS11_MODULE, {PREFIX}PKCS11_TOKEN and {PREFIX}PKCS11_PIN_FILE must be set"
            f" together, and {PREFIX}AUTHORITY_KEY_STORE 'pkcs11' requires them"
        )
