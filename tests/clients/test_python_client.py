"""A Python client by openapi-python-client: complete, importable, and able to talk to a real API."""

import shutil
import sys
from pathlib import Path

from cli.site.node_packages import run_program
from tests.clients.client_tools import SETTINGS, write_description
from tests.clients.conftest import Api

_ROUND_TRIP = Path(__file__).with_name("round_trip.py")


def test_generated_python_client_talks_to_the_api(api: Api, tmp_path: Path) -> None:
    to = tmp_path / "admit_client"
    # A warning means that an operation, a response or a schema is left out.
    made = ("--meta", "none", "--fail-on-warning", "--output-path", to)
    path = write_description(tmp_path)
    run_program("openapi-python-client", "generate", "--path", path, "--config", SETTINGS, *made, folder=tmp_path)
    shutil.copy(_ROUND_TRIP, tmp_path)
    run_program(sys.executable, "-W", "error", "round_trip.py", *api, folder=tmp_path)
