"""`python -m worker`: run the worker and its scheduler until SIGTERM.

Bypasses Celery's command line, which takes a sixth of the start time to load.
"""

import argparse
import logging
import sys

from worker.app import app


def main() -> int:
    parser = argparse.ArgumentParser(prog="worker")
    parser.add_argument("--processes", type=int, required=True)
    parser.add_argument("--schedule", required=True, help="file for the last run time of each job")
    chosen = parser.parse_args()
    # Gossip and remote control stay on although unused: without their connections, a worker stopped receiving jobs
    # after an acknowledgement failed during a Redis outage.
    worker = app.Worker(
        concurrency=chosen.processes,
        loglevel=logging.INFO,
        quiet=True,
        beat=True,
        schedule_filename=chosen.schedule,
    )
    worker.start()
    return int(worker.exitcode or 0)


if __name__ == "__main__":
    sys.exit(main())
