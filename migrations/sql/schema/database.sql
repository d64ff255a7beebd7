-- Rights in the database as a whole. migrations/roles.sql creates the roles.
DO $$
DECLARE
    missing text := (
        SELECT string_agg(role, ', ')
        FROM unnest(ARRAY['admit_app', 'admit_public', 'admit_cell', 'admit_worker']) role
        WHERE role NOT IN (SELECT rolname FROM pg_roles)
    );
BEGIN
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION 'missing database roles: %', missing
            USING HINT = 'Run migrations/roles.sql as the cluster''s superuser first.';
    END IF;
    EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
    EXECUTE format(
        'GRANT CONNECT ON DATABASE %I TO admit_app, admit_public, admit_cell, admit_worker', current_database()
    );
    -- PostgreSQL rejects COPY FROM into tables with row-level security. The shipper copies into a temporary table.
    EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO admit_cell', current_database());
END
$$;
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT SELECT ON alembic_version TO admit_app, admit_public, admit_cell, admit_worker;
-- Trigram indexes find a part of a name. A schema of its own, because its functions belong to the
-- superuser.
CREATE SCHEMA extensions;
CREATE EXTENSION pg_trgm SCHEMA extensions;
