"""Print the rules of grafana/rules as the PrometheusRule that Prometheus' operator reads."""

from pathlib import Path
from typing import Any

import yaml

RULES = Path(__file__).parents[2] / "grafana/rules"
HEAD = "# The rules of grafana/rules, which say why each threshold is what it is. Written by `make manifests`.\n"


def manifest() -> dict[str, Any]:
    """Return the object with every group of every file, recording rules first."""
    files = [yaml.safe_load((RULES / name).read_text(encoding="utf-8")) for name in ("recording.yml", "alerts.yml")]
    return {"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule", "metadata": {"name": "idlewatt"},
            "spec": {"groups": [group for file in files for group in file["groups"]]}}


if __name__ == "__main__":
    print(HEAD + yaml.safe_dump(manifest(), sort_keys=False, width=120), end="")
