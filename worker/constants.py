"""Names for other packages, without loading Celery."""

# Redis key: epoch seconds of the last `worker.heartbeat` job, which has passed beat, broker and worker.
HEARTBEAT_KEY = "admit:heartbeat:worker"
HEARTBEAT_INTERVAL_SECONDS = 5
# Redis key: JSON of the platform's standing alarms at the last `alarms.publish`: code, detail and since.
ALARMS_KEY = "admit:alarms:platform"
ALARMS_INTERVAL_SECONDS = 30
# Limit of jobs that write a tenant file or change many rows in one transaction, and of their statements.
LONG_JOB_SECONDS = 3_600
LONG_STATEMENT_SECONDS = 600
# Celery queues: JOBS_QUEUE of the jobs that clients start, QUEUE of all other tasks.
QUEUE, JOBS_QUEUE = "admit", "admit.jobs"
# Time after which the message of a job that has not started is sent again.
RESEND_SECONDS = 10
