"""The walls of the house that no linter knows: sizes, arguments, names, and where imports stand inside functions."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(path for room in ("daemon", "exporters", "grafana", "storage") for path in (ROOT / room).rglob("*.py"))
LATE_IMPORT = re.compile(r"^\s+(import|from) ", re.MULTILINE)
MOST_LINES, MOST_OF_FUNCTION, MOST_ARGUMENTS = 400, 50, 8

# Each list can only shrink: what is small again is to be taken off it, and nothing may be added.
LONG_FILES = set[str]()
LONG_FUNCTIONS: set[str] = set()
MANY_ARGUMENTS = {
    "PowerClass.__new__",  # a row of the table of classes
}
"""By the last two parts of their names."""

SAME_ROLE = {
    "ArenaTrace", "Contest", "Findings", "RandomFeasible", "Setting", "Site",  # of each reproduced paper
    "SchedulingRound",  # of each agent: one moment, while it decides
}
"""Classes whose name stands in several files, each of which has the same role there."""


def functions(path, tree):
    """Yield the dotted name and the node of every function, methods and closures too."""
    def inside(node, name):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                dotted = f"{name}.{child.name}"
                if not isinstance(child, ast.ClassDef):
                    yield dotted, child
                yield from inside(child, dotted)
            else:
                yield from inside(child, name)
    yield from inside(tree, ".".join(path.relative_to(ROOT).with_suffix("").parts))


def arguments(function):
    """Count the arguments of a function, without the object that a method belongs to."""
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


OWN_JSON = {
    "daemon/counterfactual.py",  # of a child of this process
    "grafana/builders/classes.py", "grafana/builders/dashboard.py",  # of the package
    "daemon/follow/advice.py",  # whose caller catches it
    "daemon/reproduce/published/pollux.py",  # of an archive whose digest is checked
    "exporters/simulated/server.py",  # told by a test's own client
    "exporters/slurm/parse_json.py",  # one item of what was read whole before
    "storage/underuse.py",  # of the database, as it was written
}
"""Files that need not catch it, and why."""

OWN_YAML = {"daemon/cli/_prometheus.py", "daemon/waste/hardware.py"}
"""Files that read YAML of the package."""


def unguarded(tree):
    """Yield the line of each call of ``json.load(s)`` that stands in no ``try`` that catches ``RecursionError``."""
    def inside(node, guarded):
        if isinstance(node, ast.Try):
            held = any("RecursionError" in ast.unparse(handler.type) for handler in node.handlers if handler.type)
            for child in node.body:
                yield from inside(child, guarded or held)
            for child in (*node.handlers, *node.orelse, *node.finalbody):
                yield from inside(child, guarded)
            return
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("json.loads", "json.load") and not guarded:
            yield node.lineno
        for child in ast.iter_child_nodes(node):
            yield from inside(child, guarded)
    return list(inside(tree, guarded=False))


@pytest.fixture(scope="module")
def trees():
    """What each file says, parsed once."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}


@pytest.fixture(scope="module")
def all_functions(trees):
    return [found for path, tree in trees.items() for found in functions(path, tree)]


def test_no_file_is_longer_than_one_can_read():
    long = {str(path.relative_to(ROOT)) for path in FILES if len(path.read_text().splitlines()) > MOST_LINES}
    assert long == LONG_FILES


def test_no_function_is_longer_than_a_page(all_functions):
    long = {name for name, node in all_functions if node.end_lineno - node.lineno + 1 > MOST_OF_FUNCTION}
    assert long == LONG_FUNCTIONS


def test_no_function_takes_more_arguments_than_one_can_remember(all_functions):
    many = {".".join(name.split(".")[-2:]) for name, node in all_functions if arguments(node) > MOST_ARGUMENTS}
    assert many == MANY_ARGUMENTS


def test_a_class_name_stands_once_unless_it_has_the_same_role_in_folders_side_by_side(trees):
    places = defaultdict(list)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path.relative_to(ROOT).parts[:2])
    several = {name: folders for name, folders in places.items() if len(folders) > 1}
    assert set(several) == SAME_ROLE
    assert {name for name, folders in several.items() if len(set(folders)) > 1} == set()


def test_nothing_is_defined_after_a_program_has_begun(trees):
    """What stands below ``if __name__ == "__main__"`` is not there yet while the program runs."""
    late = []
    for path, tree in trees.items():
        begins = [number for number, node in enumerate(tree.body)
                  if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)]
        late += [path.name for number in begins[:1] if tree.body[number + 1:]]
    assert late == []


def test_imports_inside_functions_stand_in_the_commands_or_say_why(trees):
    """The commands answer at once, so they import late; elsewhere the first import of a function has its reason."""
    unexplained = []
    for path in FILES:
        if path.is_relative_to(ROOT / "daemon/cli"):
            continue
        text = path.read_text(encoding="utf-8")
        if not LATE_IMPORT.search(text):
            continue  # most files, whose trees need not be walked
        lines = text.splitlines()
        for name, node in functions(path, trees[path]):
            late = [found for found in ast.walk(node) if isinstance(found, ast.Import | ast.ImportFrom)]
            if late and "  # " not in lines[min(found.lineno for found in late) - 1]:
                unexplained.append(name)
    assert unexplained == []


def test_json_from_outside_that_nests_without_end_is_caught_where_it_is_read(trees):
    found = {path.relative_to(ROOT).as_posix(): lines for path, tree in trees.items() if (lines := unguarded(tree))}
    assert {path: lines for path, lines in found.items() if path not in OWN_JSON} == {}


def test_yaml_from_outside_is_read_by_those_who_bound_its_depth(trees):
    readers = {path.relative_to(ROOT).as_posix() for path, tree in trees.items() for node in ast.walk(tree)
               if isinstance(node, ast.Call) and ast.unparse(node.func) in ("yaml.load", "yaml.safe_load")}
    assert readers - OWN_YAML == {"daemon/strict_yaml.py", "exporters/domains.py", "exporters/kubernetes/access.py",
                                  "exporters/targets.py"}
