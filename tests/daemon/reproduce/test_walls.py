"""Nothing that serves a site knows what only reproduces papers."""

import ast
import subprocess
import sys
from pathlib import Path

DAEMON = Path(__file__).parents[3] / "daemon"
REPRODUCE, COMMAND = DAEMON / "reproduce", DAEMON / "cli" / "reproduce.py"


def imported(path):
    """Yield the dotted names, from ``daemon.`` on, that a file imports anywhere, its functions included."""
    package = path.relative_to(DAEMON.parent).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = package[:len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *filter(None, [node.module]))).removeprefix("idlewatt.")
            yield from (f"{module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name.removeprefix("idlewatt.") for name in node.names)


def served():
    """Return the files of the daemon that serve a site."""
    return [path for path in DAEMON.rglob("*.py") if REPRODUCE not in path.parents and path != COMMAND
            and COMMAND.with_suffix("") not in path.parents]


def test_only_the_command_imports_the_reproductions():
    files = served()
    assert len(files) > 200
    assert not [path for path in files for name in imported(path) if name.startswith("daemon.reproduce")]


def test_reproductions_import_neither_the_web_nor_the_service_nor_other_commands():
    rooms = ("web", "service", "main", "cli")
    assert not [(path, name) for path in REPRODUCE.rglob("*.py") for name in imported(path)
                if name.startswith(tuple(f"daemon.{room}" for room in rooms))]


def test_every_folder_of_an_agent_registers_a_kind_and_no_agent_imports_another():
    agents = [path.parent for path in (DAEMON / "agents").glob("*/__init__.py")]
    assert {folder.name for folder in agents} == {"dl2", "gist_mdrl", "maifs", "scorer", "topdrl"}
    for folder in agents:
        assert (folder / "kind.py").is_file()
        others = [f"daemon.agents.{other.name}" for other in agents if other != folder]
        assert not [name for path in folder.rglob("*.py") for name in imported(path) if name.startswith(tuple(others))]


def test_the_daemon_and_training_do_not_import_the_reproductions():
    script = ("import sys, idlewatt.daemon.main, idlewatt.daemon.cli.serve, idlewatt.daemon.cli.train\n"
              "import idlewatt.daemon.cli._training, idlewatt.daemon.learning.training, idlewatt.daemon.service\n"
              "import idlewatt.daemon.learning.nightly, idlewatt.daemon.web.app\n"
              "from idlewatt.daemon.agents.kinds import kinds; kinds()\n"
              "print([name for name in sys.modules if name.startswith('idlewatt.daemon.reproduce')])")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
