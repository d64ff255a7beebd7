"""Runs the worker and its scheduler until SIGTERM (`python -m worker`).

Does not use Celery's command line, because loading the command line takes a sixth of the start time.
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
    # Keep Celery's gossip and remote control on, although Admit does not use them. Without their connections, a worker
    # received no more jobs after an acknowledgement had failed during a Redis outage.
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
