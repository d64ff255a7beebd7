-- The database roles. Run as the cluster's superuser, as often as you like, before the database is made
-- (CREATE DATABASE ... OWNER admit_owner) and migrated. Passwords and pg_hba are the business of the place it runs in.
DO $$
DECLARE
    role name;
BEGIN
    FOREACH role IN ARRAY ARRAY['admit_owner', 'admit_app', 'admit_public', 'admit_cell', 'admit_worker']::name[] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
            EXECUTE format('CREATE ROLE %I LOGIN', role);
        END IF;
        -- None may step around row-level security; the owner is exempt on its own tables alone, to migrate them.
        EXECUTE format('ALTER ROLE %I LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION', role);
        EXECUTE format('ALTER ROLE %I SET timezone = %L', role, 'UTC');
    END LOOP;
END
$$;

-- A request that hangs gives its connection back; jobs of the worker may run long.
ALTER ROLE admit_app SET statement_timeout = '30s';
ALTER ROLE admit_app SET idle_in_transaction_session_timeout = '60s';
ALTER ROLE admit_public SET statement_timeout = '30s';
ALTER ROLE admit_public SET idle_in_transaction_session_timeout = '60s';
ALTER ROLE admit_cell SET idle_in_transaction_session_timeout = '60s';
