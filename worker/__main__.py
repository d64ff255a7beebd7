"""`python -m worker`: the worker and the clock that sends it its jobs, until SIGTERM.

Started without Celery's command line, which takes a sixth of the time of a start to load.
"""

import argparse
import logging
import sys

from worker.app import app


def main() -> int:
    parser = argparse.ArgumentParser(prog="worker")
    parser.add_argument("--processes", type=int, required=True)
    parser.add_argument("--schedule", required=True, help="file in which it is kept when what was sent last")
    chosen = parser.parse_args()
    # Gossip and remote control stay on, though nobody uses them: without their connections a worker whose
    # acknowledgement failed because Redis went away was seen to hear of nothing any more.
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
