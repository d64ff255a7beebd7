"""`./admit user-group`."""

from cli.group_command import group_command
from nac.inventory.groups import USER_GROUPS

command = group_command(USER_GROUPS, members="users")
