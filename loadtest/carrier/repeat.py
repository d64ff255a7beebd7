"""A job of the worker, over and over, until its standard input ends: python -m loadtest.carrier.repeat <job> <pause>

Takes the environment of the worker, prints a line when it begins, and at the end how often it was done, which is once
at least. Any job of `worker.app` can be named; those that would find nothing to do are given some by `PREPARE`.
"""

import select
import sys
from collections.abc import Mapping

import psycopg

from nac.db import make_engine, use_engine
from nac.settings import load_settings
from worker.app import app

# Those of the days after tomorrow.
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
# By the owner of the tables, before each run of the job.
PREPARE: Mapping[str, str] = {"logs.ensure_partitions": _DROP_PARTITIONS, "tenants.delete_logs": _PURGE_ONE}


def main() -> int:
    [name, pause] = sys.argv[1:]
    settings = load_settings()
    app.loader.import_default_modules()
    if name not in app.tasks:
        known = ", ".join(sorted(each for each in app.tasks if not each.startswith("celery.")))
        print(f"the worker has no job {name!r}: choose from {known}", file=sys.stderr)
        return 1
    use_engine(make_engine(settings.database_worker_url, pool_size=2, application_name="admit-bench-job"))
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
