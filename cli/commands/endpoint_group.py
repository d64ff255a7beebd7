"""`./admit endpoint-group`."""

from cli.group_command import group_command
from nac.groups import ENDPOINT_GROUPS

command = group_command(ENDPOINT_GROUPS, members="endpoints")
