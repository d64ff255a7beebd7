"""What agent and verifier tell each other over the verifier's standard input and output, a line of JSON each."""

import msgspec


class Orders(msgspec.Struct, frozen=True):
    # File descriptor of the socket, which outlives the process: what comes while it is started again waits there.
    socket: int
    # Where it says that it is the one that answers now.
    pid_file: str
    # Shared with radiusd.
    secret: str
    replica_directory: str
    cell_key_file: str
    reject_delay_seconds: float = 0
    # Where servers may be that tenants name, as nac.outbound.reach reads it.
    reach: str = ""


class Trouble(msgspec.Struct, frozen=True):
    # Number of the tenant whose source it is.
    tenant: int
    what: str


class Report(msgspec.Struct, frozen=True):
    counters: dict[str, int]
    # By id of the source that fails.
    trouble: dict[str, Trouble]
