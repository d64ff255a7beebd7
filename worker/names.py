"""Names that others look up without loading Celery."""

# In Redis: epoch seconds of the last `worker.heartbeat` job, which has gone through beat, broker and worker.
HEARTBEAT_KEY = "admit:heartbeat:worker"
HEARTBEAT_INTERVAL_SECONDS = 5
# In Redis: JSON of the alarms that stand of the platform, as `alarms.publish` saw them last: code, detail and since.
ALARMS_KEY = "admit:alarms:platform"
ALARMS_INTERVAL_SECONDS = 30
# What waits in the database for one of the worker's jobs begins so soon.
LOOK_INTERVAL_SECONDS = 1
# How often it is looked whether an external authority is to be asked.
STATUS_INTERVAL_SECONDS = 20
# How often it is looked for what was to be signed and was not finished.
SETTLE_INTERVAL_SECONDS = 30
# Of a job that writes the file of a whole tenant, or changes many rows in one transaction; and of a statement of it.
LONG_SECONDS = 3_600
LONG_STATEMENT_SECONDS = 600
# How often trials are looked after.
TRIALS_INTERVAL_SECONDS = 60
# How often it is looked for secrets whose time to change over is up.
ROTATIONS_INTERVAL_SECONDS = 15
