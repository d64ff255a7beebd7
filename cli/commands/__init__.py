"""A file here is a command: `tenant.py` with a click command or group named `command` is `./admit tenant`."""
