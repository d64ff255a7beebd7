"""What the worker does for each kind of job that somebody asks for (`nac.jobs`)."""

from collections.abc import Mapping
from typing import Final

from nac.jobs.running import Handler

HANDLERS: Final[Mapping[str, Handler]] = {}
