"""Commands of `./admit`. Each module has a click command with the name `command`: `tenant.py` has `./admit tenant`.

All other commands are in `cli/remote/commands.toml`.
"""
