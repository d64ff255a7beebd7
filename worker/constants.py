"""Names and limits that other packages use without loading Celery."""

# Redis key with the epoch seconds of the last `worker.heartbeat` job. The job shows that beat, broker and worker run.
HEARTBEAT_KEY = "admit:heartbeat:worker"
HEARTBEAT_INTERVAL_SECONDS = 5
# Redis key with the active alarms of the platform as JSON (code, detail, since), written by `alarms.publish`.
ALARMS_KEY = "admit:alarms:platform"
ALARMS_INTERVAL_SECONDS = 30
# Time limits in seconds for jobs that write a tenant file or change many rows in one transaction: for the job, and for
# each SQL statement of the job.
LONG_JOB_SECONDS = 3_600
LONG_STATEMENT_SECONDS = 600
# Celery queues. JOBS_QUEUE is for the jobs that clients start, QUEUE for all other tasks.
QUEUE, JOBS_QUEUE = "admit", "admit.jobs"
# Seconds after which the message of a job is sent again if the job has not started.
RESEND_SECONDS = 10
