"""Names for other packages, without loading Celery."""

# Redis key: epoch seconds of the last `worker.heartbeat` job, which has passed beat, broker and worker.
HEARTBEAT_KEY = "admit:heartbeat:worker"
HEARTBEAT_INTERVAL_SECONDS = 5
# Redis key: JSON of the platform's standing alarms at the last `alarms.publish`: code, detail and since.
ALARMS_KEY = "admit:alarms:platform"
ALARMS_INTERVAL_SECONDS = 30
# Maximum delay until waiting work of a job starts.
DISPATCH_INTERVAL_SECONDS = 1
# Interval to check which external authorities are due.
STATUS_INTERVAL_SECONDS = 20
# Interval to check for interrupted signings.
SETTLE_INTERVAL_SECONDS = 30
# Limit of jobs that write a tenant file or change many rows in one transaction, and of their statements.
LONG_JOB_SECONDS = 3_600
LONG_STATEMENT_SECONDS = 600
# Interval of the upkeep of trials.
TRIALS_INTERVAL_SECONDS = 60
# Interval to check for due secret rotations.
ROTATIONS_INTERVAL_SECONDS = 15
