"""Repeats a job of the worker until standard input ends. Usage: python -m loadtest.carrier.job_loop <job> <pause>.

Uses the worker's environment variables. Prints a line at the start, and the number of runs at the end. Runs the job at
least once. Accepts any job of `worker.app`. For jobs that would have nothing to do, the SQL statements in `PREPARE`
create work.
"""

import os
import select
import sys
from collections.abc import Mapping

import psycopg

from nac.kit.db import make_engine, set_process_engine
from nac.kit.settings import load_settings
from worker.app import app
from worker.priority import lower_connection_priority, lower_priority

# Drop the partitions of the days after tomorrow, which the job then creates.
_DROP_PARTITIONS = """
DO $$ DECLARE partition regclass; BEGIN
    FOR partition IN
        SELECT inhrelid::regclass FROM pg_inherits
        WHERE inhparent IN ('auth_log'::regclass, 'accounting_log'::regclass)
            AND inhrelid::regclass::text >= inhparent::regclass::text || to_char(now() + interval '3 days', '_YYYYMMDD')
            AND inhrelid::regclass::text NOT LIKE '%_default'
    LOOP
        EXECUTE format('DROP TABLE %s', partition);
    END LOOP;
END $$
"""
_PURGE_ONE = """
INSERT INTO purged_tenants (tenant_id)
SELECT id FROM tenants
WHERE slug LIKE 'data-%' AND EXISTS (SELECT FROM accounting_log a WHERE a.tenant_id = tenants.id)
LIMIT 1 ON CONFLICT DO NOTHING
"""
# Write log rows of two days: a day that no tenant retains, and a day that every fifth tenant retains.
_OLD_DAYS = """
DELETE FROM retention_terms WHERE log = 'accounting'; -- as if the settings had been announced long ago
INSERT INTO retention_settings (tenant_id, log, days)
SELECT id, 'accounting', CASE WHEN right(slug, 1) IN ('0', '5') THEN 60 ELSE 30 END FROM tenants
WHERE slug LIKE 'data-%'
ON CONFLICT DO NOTHING;
DO $$ DECLARE begins date := (now() AT TIME ZONE 'UTC')::date - 70; BEGIN
    EXECUTE format(
        'CREATE TABLE IF NOT EXISTS accounting_log_%s PARTITION OF accounting_log FOR VALUES FROM (%L) TO (%L)',
        to_char(begins, 'YYYYMMDD'), begins::text || ' 00:00+00', (begins + 1)::text || ' 00:00+00'
    );
END $$;
INSERT INTO accounting_log (at, tenant_id, cell_id, status_type, identity, terminate_cause)
SELECT date_trunc('day', now(), 'UTC') - days * interval '1 day' + n * interval '1 second', t.id,
    (SELECT min(id) FROM cells), 'Start', 'user' || n, ''
FROM tenants t, generate_series(1, 100) n, unnest('{40,70}'::int[]) days WHERE t.slug LIKE 'data-%'
"""
_ALL_SITES = """
INSERT INTO redecision_marks (tenant_id, noun, key, due_at)
SELECT id, 'site', '', now() FROM tenants WHERE slug LIKE 'data-%'
"""
# Statements that the owner of the tables executes before each run of the job.
PREPARE: Mapping[str, str] = {
    "logs.ensure_partitions": _DROP_PARTITIONS,
    "redecisions.advance": _ALL_SITES,
    "retention.enforce": _OLD_DAYS,
    "tenants.delete_logs": _PURGE_ONE,
}
# The job deletes rows only in the off-peak window, so the window must contain the current time.
_ENVIRONMENT = {"ADMIT_RETENTION_WINDOW": "00:00-23:59"}


def main() -> int:
    [name, pause] = sys.argv[1:]
    os.environ.update(_ENVIRONMENT)
    settings = load_settings()
    app.loader.import_default_modules()
    if name not in app.tasks:
        known = ", ".join(sorted(each for each in app.tasks if not each.startswith("celery.")))
        print(f"Unknown job {name!r}. Choose from {known}.", file=sys.stderr)
        return 1
    engine = make_engine(settings.database_worker_url, pool_size=2, application_name="admit-bench-job")
    lower_priority()
    set_process_engine(lower_connection_priority(engine))
    print("begins", flush=True)
    runs = 0
    while not runs or not select.select([sys.stdin], [], [], float(pause))[0]:
        if name in PREPARE:
            with psycopg.connect(settings.database_owner_url, autocommit=True) as connection:
                connection.execute(PREPARE[name].encode())
        app.tasks[name].run()
        runs += 1
    print(runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
