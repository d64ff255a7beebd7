"""Messages between agent and verifier over its standard input and output, a line of JSON each."""

import msgspec


class VerifierSettings(msgspec.Struct, frozen=True):
    # File descriptor of the socket, which outlives the process: packets wait there during a restart.
    socket: int
    # File with the pid of the current verifier.
    pid_file: str
    # Shared with radiusd.
    secret: str
    replica_directory: str
    cell_key_file: str
    reject_delay_seconds: float = 0
    # Networks that tenants' servers may be in, as nac.kit.outbound.reach reads it.
    reach: str = ""


class SourceTrouble(msgspec.Struct, frozen=True):
    # Number of the tenant that owns the source.
    tenant: int
    what: str


class VerifierReport(msgspec.Struct, frozen=True):
    counters: dict[str, int]
    # By id of the failing source.
    trouble: dict[str, SourceTrouble]
