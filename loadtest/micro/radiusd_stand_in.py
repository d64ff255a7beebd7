"""Replacement of the Python module `radiusd`, with the constants that radius.module imports.

With this replacement, benchmarks can call functions of radius.module directly.
"""

import sys
import types
from collections.abc import Callable

# rlm_rcode_t (src/include/radiusd.h of FreeRADIUS 3.2).
CODES = {"REJECT": 0, "FAIL": 1, "OK": 2, "HANDLED": 3, "NOOP": 7, "UPDATED": 8}


def install(log: Callable[[str], object]) -> None:
    """Install the replacement. Call the function before the import of radius.module.

    The function `log` is called with each line for radiusd's log.
    """
    module = types.ModuleType("radiusd")
    for name, code in CODES.items():
        setattr(module, f"RLM_MODULE_{name}", code)
    module.L_ERR = 4  # type: ignore[attr-defined]
    module.radlog = lambda level, text: log(text)  # type: ignore[attr-defined]
    sys.modules["radiusd"] = module
