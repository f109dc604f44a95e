"""Change the code a little in many places, and see whether some test notices: a sample of mutants by cosmic-ray.

``python tests/mutants.py COSMIC_RAY PYTHON [AREA ...]``. Nothing is changed here: mutants live in a copy of the tree.
Those that no test noticed are compared with ``tests/mutants.txt``, which says why each is let be; a new one fails.
"""

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
KNOWN = Path(__file__).with_name("mutants.txt")
SAMPLE, SEED, TIMEOUT_S = 12, 15, 120.0
"""Mutants of an area; drawn anew only where this or the code changes."""

ALIKE = ("BitOr", "_Is_", "_IsNot_")
"""Operators whose mutants are mostly the same program: annotations are not run, the same object is equal, too."""


class Area(NamedTuple):
    """Code, and the tests that are to notice what is wrong with it."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


AREAS = {
    "waste": Area(("daemon/waste/energy.py", "daemon/waste/hardware.py",
                   "daemon/waste/readings.py", "daemon/waste/nodes.py", "daemon/waste/stranded.py"),
                  ("tests/daemon/waste",)),
    "advice": Area(("daemon/advice/migration.py", "daemon/advice/diagnosis.py", "daemon/advice/topology_cost.py"),
                   ("tests/daemon/advice/test_migration.py", "tests/daemon/advice/test_diagnosis.py",
                    "tests/daemon/advice/test_topology_cost.py",
                    "tests/daemon/advice/test_locality_speed.py", "tests/daemon/advice/test_gpu_assignment.py")),
    "abstention": Area(("daemon/advice/inference.py", "daemon/advice/wait_estimate.py"),
                       ("tests/daemon/advice/test_inference.py", "tests/daemon/advice/test_wait_estimate.py",
                        "tests/daemon/advice/test_start_forecasts.py")),
    "promotion": Area(("daemon/learning/promotion.py", "daemon/learning/regret.py"),
                      ("tests/daemon/learning/test_promotion.py", "tests/daemon/learning/test_regret.py")),
    "evidence": Area(("daemon/learning/evidence.py", "daemon/learning/pairs.py", "daemon/learning/trials.py",
                      "daemon/learning/verdict.py", "daemon/learning/finite.py"),
                     ("tests/daemon/learning/test_evidence.py", "tests/daemon/learning/test_pairs.py",
                      "tests/daemon/learning/test_trials.py", "tests/daemon/learning/test_verdict.py",
                      "tests/daemon/learning/test_finite.py", "tests/daemon/learning/test_promotion.py")),
    "nightly": Area(("daemon/learning/nightly.py",), ("tests/daemon/learning/test_nightly.py",)),
    "storage": Area(("storage/durations.py", "storage/eligibility.py", "storage/following.py", "storage/retention.py",
                     "storage/windows.py", "storage/promotions.py"),
                    ("tests/storage/test_eligibility.py", "tests/storage/test_advice.py",
                     "tests/storage/test_retention.py", "tests/storage/test_windows.py",
                     "tests/storage/test_promotions.py", "tests/storage/test_speeds.py",
                     "tests/storage/test_uses.py", "tests/storage/test_notices.py",
                     "tests/storage/test_run_energy.py", "tests/daemon/test_config.py")),
}


def copied(folder: Path) -> Path:
    """Return a copy of the tree in which ``idlewatt`` is importable from beside it."""
    tree = folder / "tree"
    tree.mkdir()
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)  # noqa: S607
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    (folder / "path").mkdir()
    (folder / "path/idlewatt").symlink_to(tree)
    return tree


def session(cosmic_ray: str, python: str, area: Area, tree: Path) -> Path:
    """Return a session with the sampled mutants of an area."""
    tests = " ".join(area.tests)
    config = tree.parent / "cosmic-ray.toml"
    config.write_text(f"""[cosmic-ray]
module-path = {json.dumps(area.modules)}
timeout = {TIMEOUT_S}
excluded-modules = []
test-command = "{python} -m pytest -q -x -p no:cacheprovider -p no:xdist -m 'not postgres' {tests}"
[cosmic-ray.distributor]
name = "local"
""", encoding="utf-8")
    database = tree.parent / "session.sqlite"
    database.unlink(missing_ok=True)
    subprocess.run([cosmic_ray, "init", config, database], cwd=tree, check=True)
    with sqlite3.connect(database) as connection:
        every = connection.execute("SELECT job_id, operator_name FROM mutation_specs "
                                   "ORDER BY module_path, operator_name, occurrence").fetchall()
        telling = [job for job, operator in every if not any(part in operator for part in ALIKE)]
        kept = set(random.Random(SEED).sample(telling, min(SAMPLE, len(telling))))
        for job in {job for job, _ in every} - kept:
            connection.execute("DELETE FROM mutation_specs WHERE job_id = ?", (job,))
            connection.execute("DELETE FROM work_items WHERE job_id = ?", (job,))
    return database


def survivors(cosmic_ray: str, python: str, area: Area, tree: Path) -> list[str]:
    """Run an area's mutants; return those that no test noticed, each by what stands in its place."""
    database = session(cosmic_ray, python, area, tree)
    subprocess.run([cosmic_ray, "exec", tree.parent / "cosmic-ray.toml", database], cwd=tree, check=True,
                   env=os.environ | {"PYTHONPATH": str(tree.parent / "path"), "PYTHONDONTWRITEBYTECODE": "1",
                                     "CI": "true"})
    with sqlite3.connect(database) as connection:
        results = connection.execute("SELECT test_outcome, diff FROM work_results").fetchall()
    print(f"{len(results)} mutants, {sum('SURVIVED' in outcome for outcome, _ in results)} survived", flush=True)
    return [told(diff) for outcome, diff in results if "SURVIVED" in outcome]


def told(diff: str) -> str:
    """Return a mutant as one line: its file, and the changed line before and after."""
    lines = diff.splitlines()
    file = next(line for line in lines if line.startswith("+++")).split()[-1].removeprefix("b/")
    before, after = (next(line[1:].strip() for line in lines if line.startswith(sign) and line[:3] != 3 * sign)
                     for sign in "-+")
    return f"{file}: {before} => {after}"


def main(cosmic_ray: str, python: str, names: list[str]) -> int:
    """Return 1 where a mutant survives that is not known."""
    known = {line for line in KNOWN.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")}
    alive: list[str] = []
    for name in names or list(AREAS):
        print(name, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            alive += survivors(cosmic_ray, python, AREAS[name], copied(Path(folder)))
    for line in alive:
        print("known" if line in known else "NEW", line, flush=True)
    return int(any(line not in known for line in alive))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
