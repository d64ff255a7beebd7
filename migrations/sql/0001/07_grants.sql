DO $$
BEGIN
    EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO admit_app, admit_cell, admit_worker', current_database());
    -- PostgreSQL refuses COPY FROM into tables with row-level security: the shipper copies into a temporary one.
    EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO admit_cell', current_database());
END
$$;
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC;
GRANT EXECUTE ON FUNCTION scope_tenant_id(), scope_msp_id(), scope_cell_id(), scope_is_platform() TO admit_app, admit_cell, admit_worker;
GRANT EXECUTE ON FUNCTION ensure_log_partitions(date, int) TO admit_worker;
GRANT EXECUTE ON FUNCTION register_cell(text, text) TO admit_cell;
GRANT SELECT ON alembic_version TO admit_app, admit_cell, admit_worker;

GRANT SELECT, INSERT, UPDATE, DELETE ON
    msps, tenants, sites, nases, endpoints, endpoint_groups, endpoint_group_members, users, user_groups, user_group_members,
    certificate_authorities, certificates, policies, policy_versions
    TO admit_app, admit_worker;
GRANT SELECT, INSERT ON audit_log TO admit_app, admit_worker;
GRANT SELECT ON auth_log, accounting_log TO admit_app, admit_worker;
GRANT DELETE ON auth_log, accounting_log TO admit_worker;
GRANT SELECT, DELETE ON sessions, endpoint_sightings TO admit_app, admit_worker;
GRANT UPDATE ON sessions TO admit_worker;
GRANT SELECT ON cells, slots, dictionaries, journal_positions, quarantined_records TO admit_app, admit_worker;
GRANT DELETE ON quarantined_records TO admit_worker;
GRANT SELECT, DELETE ON purged_tenants TO admit_worker;
GRANT UPDATE (status) ON cells TO admit_app, admit_worker;
GRANT UPDATE (tenant_id, status) ON slots TO admit_app, admit_worker;
GRANT SELECT, DELETE ON replica_changes TO admit_worker;

GRANT SELECT ON
    tenants, sites, nases, endpoints, endpoint_groups, endpoint_group_members, users, user_groups, user_group_members,
    certificates, policies, policy_versions, cells, slots, dictionaries, replica_changes
    TO admit_cell;
-- All but key_sealed: a cell presents certificates, it never signs one.
GRANT SELECT (id, tenant_id, kind, name, subject, certificate_der, key_id, status, not_before, not_after, issuer_id)
    ON certificate_authorities TO admit_cell;
GRANT INSERT ON auth_log, accounting_log TO admit_cell;
GRANT USAGE ON SEQUENCE auth_log_id_seq, accounting_log_id_seq TO admit_cell;
GRANT SELECT, INSERT ON sessions, endpoint_sightings TO admit_cell;
-- Not whose they are.
GRANT UPDATE (
    site_id, nas_id, nas_address, identity, framed_ip, updated_at, stopped_at, session_seconds, input_octets,
    output_octets, terminate_cause, flags
) ON sessions TO admit_cell;
GRANT UPDATE (last_seen_at, site_id, nas_id, nas_port, permitted) ON endpoint_sightings TO admit_cell;
GRANT SELECT, INSERT, UPDATE ON journal_positions TO admit_cell;
GRANT SELECT, INSERT, DELETE ON quarantined_records TO admit_cell;
GRANT UPDATE (why) ON quarantined_records TO admit_cell; -- what SELECT ... FOR UPDATE asks for
GRANT INSERT ON dictionaries, slots TO admit_cell;
GRANT UPDATE (host, dictionary_sha256, replica_position, replica_position_at, agent_seen_at, radiusd_started_at, counters, alarms)
    ON cells TO admit_cell;
GRANT UPDATE (secret_sealed, status, auth_port, acct_port) ON slots TO admit_cell;

SELECT ensure_log_partitions((now() AT TIME ZONE 'UTC')::date - 1, 9);
