"""The documentation site: `./.venv/bin/mkdocs build` or `serve`, with the hooks in `hooks.py`."""
