"""Names that others look up without loading Celery."""

# In Redis: epoch seconds of the last `worker.heartbeat` job, which has gone through beat, broker and worker.
HEARTBEAT_KEY = "admit:heartbeat:worker"
HEARTBEAT_INTERVAL_SECONDS = 5
# In Redis: JSON of the alarms that stand of the platform, as `alarms.publish` saw them last: code, detail and since.
ALARMS_KEY = "admit:alarms:platform"
ALARMS_INTERVAL_SECONDS = 30
# What a device tells is worked out within so long.
ENRICH_INTERVAL_SECONDS = 1
# An approval that has ended is told within so long.
EXPIRY_INTERVAL_SECONDS = 10
# How often it is looked for a job that somebody has asked for.
JOBS_INTERVAL_SECONDS = 1
# How often it is looked for an export that waits.
EXPORT_INTERVAL_SECONDS = 5
# How often it is looked whether an external authority is to be asked.
STATUS_INTERVAL_SECONDS = 20
# A list of revoked certificates follows a revocation after so long, and the time that it takes to be made.
PUBLISH_INTERVAL_SECONDS = 1
# How often it is looked for what was to be signed and was not finished.
SETTLE_INTERVAL_SECONDS = 30
# Live sessions are decided anew so long after a change, once the cell decides with it.
REDECIDE_INTERVAL_SECONDS = 1
# How often it is looked whether a feed has something to send.
FEEDS_INTERVAL_SECONDS = 2
# How often it is looked for a self-test that waits.
SELF_TESTS_INTERVAL_SECONDS = 1
# A mail about an account is written so soon.
SIGN_IN_MAILS_INTERVAL_SECONDS = 2
# The audit log tells of attempts to sign in that failed so soon.
SIGN_IN_TELL_INTERVAL_SECONDS = 5
# A mail leaves so soon.
MAIL_INTERVAL_SECONDS = 2
# How often trials are looked after.
TRIALS_INTERVAL_SECONDS = 60
# How often it is looked for secrets whose time to change over is up.
ROTATIONS_INTERVAL_SECONDS = 15
# An entry of the audit log has its place in its chain after so long.
SEAL_INTERVAL_SECONDS = 2
