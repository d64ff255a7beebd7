-- The database roles. Run this file as the cluster's superuser before you create the database
-- (CREATE DATABASE ... OWNER admit_owner) and migrate it. You can run it again at any time.
-- It sets no passwords and does not change pg_hba.conf.
DO $$
DECLARE
    role name;
BEGIN
    FOREACH role IN ARRAY ARRAY['admit_owner', 'admit_app', 'admit_public', 'admit_cell', 'admit_worker']::name[] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
            EXECUTE format('CREATE ROLE %I LOGIN', role);
        END IF;
        -- No role bypasses row-level security. The owner is exempt on its own tables, to migrate them.
        EXECUTE format('ALTER ROLE %I LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION', role);
        EXECUTE format('ALTER ROLE %I SET timezone = %L', role, 'UTC');
    END LOOP;
END
$$;

-- A request that hangs releases its connection. Jobs of the worker can run long.
ALTER ROLE admit_app SET statement_timeout = '30s';
ALTER ROLE admit_app SET idle_in_transaction_session_timeout = '60s';
ALTER ROLE admit_public SET statement_timeout = '30s';
ALTER ROLE admit_public SET idle_in_transaction_session_timeout = '60s';
ALTER ROLE admit_cell SET idle_in_transaction_session_timeout = '60s';
