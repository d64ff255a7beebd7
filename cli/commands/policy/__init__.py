"""`./admit policy`."""

from cli.commands.policy import documents, force, hits, replaying, trying
from cli.commands.policy.group import command

# Each module adds its commands to the group.
__all__ = ["command", "documents", "force", "hits", "replaying", "trying"]
