"""Commands: each module with a click command named `command`, such as `tenant.py` for `./admit tenant`.

All other commands are in `cli/remote/commands.toml`.
"""
