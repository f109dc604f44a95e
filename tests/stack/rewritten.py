"""Write the asserts of all test modules out once, before workers start: each of them would do so for itself.

What pytest makes of a module lies beside it, as Python's own machine code does. Parts of pytest's own are used, whose
change tests/test_third_parts.py would notice.
"""

import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite


def rewrite_once(config: pytest.Config, folder: Path) -> None:
    """Leave the rewritten code of each test module and conftest where whoever imports it looks first."""
    if sys.dont_write_bytecode:
        return
    state = config.stash[rewrite.assertstate_key]
    for file in sorted(folder.rglob("*.py")):
        code = rewrite.get_cache_dir(file) / f"{file.stem}{rewrite.PYC_TAIL}"
        if file.match("test_*.py") and rewrite._read_pyc(file, code) is None and rewrite.try_makedirs(code.parent):
            found, rewritten = rewrite._rewrite_test(file, config)
            rewrite._write_pyc(state, rewritten, found, code)
