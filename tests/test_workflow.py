"""The workflow for a public CI service runs what is here, and on the Pythons that the packages name."""

import configparser
import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
JOBS = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]


def setup() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def steps() -> list[str]:
    return [step["run"] for job in JOBS.values() for step in job["steps"] if "run" in step]


def test_the_service_runs_what_ci_runs_here():
    assert ".ci/run" in steps()
    assert (ROOT / ".ci/run").stat().st_mode & 0o111


def test_every_python_that_is_tried_there_is_named_by_the_packages_and_no_other():
    tried = JOBS["other-pythons"]["strategy"]["matrix"]["python"]
    named = re.findall(r"Programming Language :: Python :: ([\d.]+)", setup()["metadata"]["classifiers"])
    assert named == ["3.11", *tried]  # Debian 12 has 3.11


def test_the_targets_and_marks_that_its_steps_name_are_there():
    makefile, marks = (ROOT / "Makefile").read_text(), setup()["tool:pytest"]["markers"]
    for line in steps():
        for target in re.findall(r"^make ([\w-]+)", line):
            assert f"\n{target}:" in makefile
        for mark in re.findall(r"not (\w+)", line):
            assert f"{mark}:" in marks
