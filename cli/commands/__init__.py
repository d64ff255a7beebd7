"""Commands: each module with a click command named `command` is one, such as `tenant.py` for `./admit tenant`."""
