"""Try the lowest or the newest dependencies that setup.cfg allows: a fresh environment, and a smoke set of tests in it.

``python tests/dependencies.py lowest|newest FOLDER``; the folder is made anew.
"""

import configparser
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOOLS = ("hypothesis", "jsonschema", "openapi-spec-validator", "psycopg[binary]>=3.1,<4", "pytest<9.2",
         "pytest-timeout", "responses", "trustme")
SMOKE = ("tests/test_third_parts.py", "tests/daemon/test_config.py", "tests/daemon/waste", "tests/daemon/web",
         "tests/daemon/replay/test_engine.py", "tests/exporters/test_fetch.py", "tests/exporters/test_exposition.py",
         "tests/exporters/test_publish.py", "tests/storage/test_history.py", "tests/storage/test_migrations.py",
         "tests/storage/test_schema.py")


def lowest() -> list[str]:
    """Return every runtime dependency pinned to the lowest version that is allowed."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    wanted = re.findall(r"^([\w-]+)>=([\d.]+)", parser["options"]["install_requires"], re.MULTILINE)
    return [f"{name}=={version}" for name, version in wanted]


def main(which: str, folder: Path) -> None:
    """Make the environment, install, and run the smoke set; the exit status is the tests'."""
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    python = str(folder.absolute() / "bin/python")
    pins = lowest() if which == "lowest" else []
    subprocess.run([python, "-m", "pip", "install", "-q", "--upgrade", "-e", ".", *pins, *TOOLS], cwd=ROOT, check=True)
    subprocess.run([python, "-m", "pip", "list", "--format=freeze"], cwd=ROOT, check=True)
    done = subprocess.run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SMOKE], cwd=ROOT, check=False)
    sys.exit(done.returncode)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("lowest", "newest"):
        sys.exit(__doc__)
    main(sys.argv[1], Path(sys.argv[2]))
