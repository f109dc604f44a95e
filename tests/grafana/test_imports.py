"""The dashboards are data: of the package their code reads the one table of waste classes, and nothing else."""

import ast
from pathlib import Path

import pytest

import idlewatt.grafana.boards

CODE = sorted(Path(idlewatt.grafana.boards.__file__).parent.glob("*.py"))
TABLE = "storage.power_classes"


@pytest.mark.parametrize("path", CODE, ids=lambda path: path.stem)
def test_of_the_package_only_the_table_of_waste_classes_is_read(path):
    asked = [node.module or "" for node in ast.walk(ast.parse(path.read_text()))
             if isinstance(node, ast.ImportFrom) and (node.level > 1 or (node.module or "").startswith("idlewatt"))]
    assert set(asked) <= {TABLE}
