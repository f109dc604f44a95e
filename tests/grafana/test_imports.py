"""The dashboards are data: their code imports nothing of the package, and writes the same without it."""

import subprocess
import sys

LOADED = """
import sys
from idlewatt.grafana.builders import __main__
for build in __main__.DASHBOARDS.values():
    build()
print(*sorted({".".join(name.split(".")[:2]) for name in sys.modules if name.startswith("idlewatt.")}))
"""


def test_of_the_package_the_dashboards_load_themselves_only():
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=120, check=True)

    assert done.stdout.split() == ["idlewatt.grafana"]
