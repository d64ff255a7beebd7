"""Services that every noun uses: permissions, audit log, jobs, mail, alarms, idempotency, order of locks."""
