"""Messages between agent and verifier over the verifier's standard input and output, one line of JSON each."""

import msgspec


class VerifierSettings(msgspec.Struct, frozen=True):
    # File descriptor of the socket. The socket outlives the process, so packets wait in the socket during a restart.
    socket: int
    # File with the process id of the current verifier.
    pid_file: str
    # Secret that the verifier shares with radiusd.
    secret: str
    replica_directory: str
    cell_key_file: str
    reject_delay_seconds: float = 0
    # Networks that may contain tenants' servers, in the format of nac.kit.outbound.reach.
    reach: str = ""


class SourceTrouble(msgspec.Struct, frozen=True):
    # Number of the tenant that owns the identity source.
    tenant: int
    what: str


class VerifierReport(msgspec.Struct, frozen=True):
    counters: dict[str, int]
    # Current faults of identity sources, by id of the source.
    trouble: dict[str, SourceTrouble]
