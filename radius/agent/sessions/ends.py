"""SQL that ends sessions without a Stop and stores their last usage."""

# Tenant id, MAC address (None if unknown) and user name.
SessionIdentity = tuple[str, str | None, str]

_END_SESSIONS = """
WITH :before chosen AS MATERIALIZED (:chosen), ended AS (
    UPDATE sessions s SET
        stopped_at = chosen.ended_at, terminate_cause = chosen.cause, flags = s.flags || chosen.flag,
        settled_seconds = coalesce(s.session_seconds, 0), settled_input = coalesce(s.input_octets, 0),
        settled_output = coalesce(s.output_octets, 0)
    FROM chosen WHERE s.ctid = chosen.place
    RETURNING s.tenant_id, s.usage_hour, s.id, s.site_id, s.nas_id, s.nas_key, s.mac, s.identity,
        s.settled_seconds - chosen.settled_seconds AS seconds, s.settled_input - chosen.settled_input AS input,
        s.settled_output - chosen.settled_output AS output
), used AS (
    INSERT INTO usage_hours (
        tenant_id, hour, session_row, site_id, nas_id, nas_key, mac, identity, seconds, input_octets, output_octets
    )
    SELECT * FROM ended WHERE seconds > 0 OR input > 0 OR output > 0
)
SELECT tenant_id::text, mac::text, identity FROM ended
"""


def end_statement(chosen: str, *, before: str = "") -> str:
    """Build a statement that ends sessions and returns tenant, MAC address and user name of each.

    `chosen` is a query for the sessions to end. The columns of `chosen` are place (ctid), ended_at, cause, flag (an
    array), settled_seconds, settled_input and settled_output. `before` are WITH queries that `chosen` uses, each
    followed by a comma.
    """
    return _END_SESSIONS.replace(":chosen", chosen).replace(":before", before)
