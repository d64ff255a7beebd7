-- Control of PostgreSQL's own processes, which run as another operating-system user than Admit.
-- Run this file in the database as the cluster's superuser. You can run it again at any time.
CREATE SCHEMA IF NOT EXISTS machine;
REVOKE ALL ON SCHEMA machine FROM PUBLIC;
GRANT USAGE ON SCHEMA machine TO admit_app, admit_worker;

-- Lowers the priority of the calling connection's process (worker/priority.py). It takes no arguments, and a process
-- can only lower its own priority.
CREATE OR REPLACE FUNCTION machine.give_way() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- The shell's parent is the process of this connection (popen(3)).
    COPY (SELECT WHERE false) TO PROGRAM
        'renice -n 10 -p $PPID >/dev/null 2>&1; { echo 10 >/proc/$PPID/autogroup; } 2>/dev/null; true';
END
$$;
REVOKE ALL ON FUNCTION machine.give_way() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION machine.give_way() TO admit_app, admit_worker;
