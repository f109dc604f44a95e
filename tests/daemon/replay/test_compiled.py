import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest

from idlewatt.daemon.policies import easy
from idlewatt.daemon.replay import compiled, moves

DIGEST_SCRIPT = """
import sys
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.compiled import cache_folder
from synthetic import synthetic
print(engine.run(Cluster.from_spec("64x8"), synthetic(2000, 1.1), named(sys.argv[1]), seed=7).digest)
print(cache_folder())
"""

LITTLE = """
import numpy as np
from idlewatt.daemon.replay.compiled import cache_folder
from idlewatt.daemon.replay.moves import scramble
print(scramble(np.uint64(7)))
print(cache_folder())
"""


def digest_and_folder(policy: str = "random+random-fit+easy", **environment: str) -> tuple[str, Path]:
    """Run a replay in another process and return its digest and its cache folder."""
    digest, folder = output_of(DIGEST_SCRIPT, policy, **environment).split()
    return digest, Path(folder)


def output_of(script: str, *arguments: str, **environment: str) -> str:
    """Run a script in another process and return what it prints."""
    there = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "CACHE_DIRECTORY")}
    there |= {"PYTHONPATH": str(Path(__file__).parent)} | environment
    done = subprocess.run([sys.executable, "-c", script, *arguments], env=there, capture_output=True, text=True,
                          check=True, timeout=240)
    return done.stdout.strip()


@pytest.mark.long
@pytest.mark.parametrize("policy", ["random-feasible", pytest.param("random+random-fit+easy", marks=pytest.mark.long)])
def test_another_process_with_other_hash_seeds_comes_to_the_same_digest(policy):
    assert digest_and_folder(policy, PYTHONHASHSEED="1")[0] == digest_and_folder(policy, PYTHONHASHSEED="2")[0]


def test_results_of_replays_are_kept_apart_when_what_a_policy_imports_from_elsewhere_changes(monkeypatch):
    def digest_with(ending: str) -> str:
        changed = set[Path]()

        def read(path: Path) -> bytes:
            changed.update({path} if str(path).endswith(ending) else ())
            return of_file(path) + b"#" * (path in changed)

        of_file = Path.read_bytes
        with monkeypatch.context() as patch:
            patch.setattr(Path, "read_bytes", read)
            digest = compiled.code_digest()
        assert len(changed) == 1
        return digest

    for ending in ("daemon/settings/priority.py", "storage/eligibility.py", "daemon/policies/easy.py"):
        assert digest_with(ending) != compiled.code_digest()


def test_machine_code_is_kept_in_the_cache_directory_that_systemd_gives(tmp_path):
    folder = Path(output_of(LITTLE, CACHE_DIRECTORY=str(tmp_path)).split()[-1])
    assert folder.parent == tmp_path
    assert list(folder.rglob("*.nbc"))


@pytest.mark.parametrize("where", ["/proc/nothing/here", "/dev/null/cache"])
def test_without_a_writable_cache_the_same_comes_out(where, tmp_path):
    here, folder = output_of(LITTLE, NUMBA_CACHE_DIR=where, TMPDIR=str(tmp_path)).split()
    assert int(here) == int(moves.scramble(np.uint64(7)))
    assert list(Path(folder).rglob("*.nbc"))
    assert Path(folder).is_relative_to(tmp_path)


@pytest.mark.long
def test_without_a_writable_cache_the_same_run_comes_out(tmp_path):
    """Half a minute of compilation, which the little function above spares."""
    assert digest_and_folder(NUMBA_CACHE_DIR="/proc/nothing/here", TMPDIR=str(tmp_path))[0] == digest_and_folder()[0]


def test_without_a_writable_cache_machine_code_is_kept_in_a_private_folder_and_that_is_said_once(tmp_path):
    script = ("import subprocess, sys; from idlewatt.daemon.replay.compiled import cache_folder; "
              "print(cache_folder(), flush=True); "
              "subprocess.run([sys.executable, '-c', 'from idlewatt.daemon.replay.compiled import cache_folder; "
              "print(cache_folder())'])")
    environment = os.environ | {"NUMBA_CACHE_DIR": "/proc/nothing/here", "TMPDIR": str(tmp_path)}
    for _ in range(2):  # the second start finds what the first one kept
        done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True,
                              check=True, timeout=240)
        ours, childs = map(Path, done.stdout.split())
        assert ours == childs
        assert ours.parent == tmp_path / f"idlewatt-{os.getuid()}"
        assert ours.parent.stat().st_mode & 0o777 == 0o700
        assert done.stderr.count("machine code cannot be kept in /proc/nothing/here") == 1


@pytest.mark.parametrize("taken", ["open", "link", "file"])
def test_a_folder_that_others_could_write_to_is_not_taken_for_private(tmp_path, monkeypatch, taken):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    theirs = tmp_path / f"idlewatt-{os.getuid()}"
    if taken == "open":
        theirs.mkdir()
        theirs.chmod(0o777)
    elif taken == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        theirs.symlink_to(tmp_path / "elsewhere")
    else:
        theirs.touch()
    private = compiled._private()
    assert private != theirs
    assert private.stat().st_mode & 0o777 == 0o700


def folders(base, count):
    """Return folders of machine code, the last one the newest."""
    made = []
    for number in range(count):
        folder = base / f"compiled-{number}"
        folder.mkdir()
        (folder / "in-use").touch()
        (folder / "code.nbc").write_bytes(b"code")
        os.utime(folder, (1e9 + number, 1e9 + number))
        made.append(folder)
    return made


def test_the_oldest_machine_code_makes_room_unless_somebody_uses_it(tmp_path):
    made = folders(tmp_path, compiled.KEPT + 3)
    holder = subprocess.Popen(
        [sys.executable, "-c", "import fcntl, sys; file = open(sys.argv[1]); fcntl.flock(file, fcntl.LOCK_SH);"
         "print('held', flush=True); sys.stdin.read()", made[1] / "in-use"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    compiled.claim(tmp_path / "compiled-ours")
    assert [folder.exists() for folder in made] == [False, True, False] + [True] * compiled.KEPT
    assert (tmp_path / "compiled-ours").is_dir()
    holder.communicate()


def test_machine_code_of_a_version_that_claims_nothing_stays_for_a_day(tmp_path):
    young, old, *_ = made = folders(tmp_path, compiled.KEPT + 2)
    for folder in made:
        os.utime(folder, (time.time() + 60, time.time() + 60))
    for folder, age_s in ((young, 3600), (old, 100_000)):
        (folder / "in-use").unlink()
        os.utime(folder, (time.time() - age_s, time.time() - age_s))
    compiled.claim(tmp_path / "compiled-mine")
    assert young.exists()
    assert not old.exists()


@pytest.fixture
def edited(tmp_path):
    """Whose machine code is compiled anew after an edit of a file: of policies, of what one is made of, of agents."""
    sources = {
        "policies/strict.py": "def heads():\n    return 1\n", "policies/tight.py": "BEST = 1\n",
        "policies/easy.py": "from .strict import (\n    heads,\n)\n",
        "agents/one/kernel.py": "from ..two import moves\nfrom ...policies.easy import heads\n",
        "agents/two/moves.py": "", "agents/two/train.py": "from ...policies import tight\n"}
    for name, text in sources.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    def folders():
        compiled._around.cache_clear()
        compiled._imports.cache_clear()
        return {name: compiled._around(tmp_path / name) for name in sources}

    def edited(name):
        before = folders()
        (tmp_path / name).write_text(sources[name] + "\nEDITED = True\n")
        after = folders()
        return {name for name in sources if before[name] != after[name]}

    return edited


@pytest.mark.parametrize(("source", "anew"), [
    ("policies/tight.py", {"agents/two/train.py"}),
    ("policies/easy.py", {"agents/one/kernel.py"}),
    ("policies/strict.py", {"policies/easy.py", "agents/one/kernel.py"}),
    ("agents/two/moves.py", {"agents/one/kernel.py"}),
    ("agents/two/train.py", set())])
def test_an_edit_costs_the_compilation_of_the_file_and_of_those_that_import_it_only(edited, source, anew):
    assert edited(source) == {source} | anew


def test_the_engines_machine_code_knows_no_policy():
    engines, policys = compiled._folder(moves.scramble.py_func), compiled._folder(easy.book.py_func)
    assert engines == compiled.cache_folder() == policys.parent
    assert not any("policies" in str(source) for source in compiled._imports(Path(moves.__file__)))


def test_what_only_compiled_code_calls_is_compiled_without_a_way_in_from_python_until_somebody_takes_it():
    double = compiled.compiled(lambda number: number * 2)
    more = compiled.compiled(lambda number: double(number) + 1)

    assert more(20) == 41
    assert len(double.overloads) == 0
    assert double(21) == 42
    assert len(double.overloads) == 1
    assert more(1.5) == 4.0


def test_what_calls_itself_is_compiled_in_one_form():
    def down(number):
        return down(number - 1) if number > 0 else number

    down = compiled.compiled(down)
    assert down(3) == 0
    assert len(down.overloads) == 1


def test_types_are_looked_at_where_there_is_machine_code_for_several():
    double = numba.njit(lambda number: number * 2)

    assert double(1.5) == 3.0
    assert compiled.only_version(double)(2.5) == 5.0
    assert compiled.only_version(double) is not double
    assert double(3) == 6
    assert compiled.only_version(double) is double


def test_what_could_be_inlined_is_let_go_of_where_nobody_inlines_it():
    @compiled.compiled
    def doubled(number):
        return 2 * number

    assert doubled(4) == 8
    compiled.forget_inlinable()
    assert [compiled._code_of(version)._shared_module for version in doubled.overloads.values()] == [None]
    assert doubled(5) == 10

    @compiled.compiled
    def quadrupled(number):
        return doubled(doubled(number))

    assert quadrupled(4) == 16
    rule = compiled.pointer(doubled.py_func, numba.types.int64(numba.types.int64))
    assert rule._library._shared_module is None

    @compiled.compiled
    def ruled(by, number):
        return by(number)

    assert ruled(rule, 4) == 8


class Loop:
    """A compiled loop with machine code for so many kinds of states; it notes by which way it was entered."""

    def __init__(self, versions=1):
        self.ways = []
        self.overloads = {number: SimpleNamespace(entry_point=lambda *given: self.ways.append(("past", given)))
                          for number in range(versions)}

    def __call__(self, *given):
        self.ways.append(("looked", given))


STATE, AGENDA, CALLS = object(), object(), (True, 1)


def test_what_goes_on_is_looked_at_once():
    loop, entrance = Loop(), compiled.Entrance()
    for until in (1.0, 2.0, 3.0):
        entrance.enter(loop, STATE, AGENDA, (True, 1), until)
    assert loop.ways == [("looked", (STATE, AGENDA, CALLS, 1.0)), ("past", (STATE, AGENDA, CALLS, 2.0)),
                         ("past", (STATE, AGENDA, CALLS, 3.0))]


@pytest.mark.parametrize("other", [(object(), AGENDA, CALLS), (STATE, object(), CALLS), (STATE, AGENDA, (True, 2))])
def test_whatever_is_another_is_looked_at(other):
    loop, entrance = Loop(), compiled.Entrance()
    for given in ((STATE, AGENDA, CALLS), other, (STATE, AGENDA, CALLS)):
        entrance.enter(loop, *given, 1.0)
    assert [way for way, _ in loop.ways] == ["looked"] * 3


def test_another_loop_is_looked_at_and_so_is_one_with_code_for_several_kinds():
    entrance, loop, several = compiled.Entrance(), Loop(), Loop(versions=2)
    for entered in (loop, several, several):
        entrance.enter(entered, STATE, AGENDA, CALLS, 1.0)
    assert [way for way, _ in loop.ways + several.ways] == ["looked"] * 3
