"""Services for all domain packages: permissions, audit log, jobs, mail, alarms, idempotency, order of locks."""
