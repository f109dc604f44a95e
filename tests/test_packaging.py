import configparser
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = {"daemon", "exporters", "grafana", "storage", "systemd"}


def setup():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def test_every_folder_of_code_is_packaged():
    folders = {str(init.parent.relative_to(ROOT)).replace("/", ".")
               for room in ROOMS for init in (ROOT / room).rglob("__init__.py")}
    assert {f"idlewatt.{folder}" for folder in folders} == set(setup()["options"]["packages"].split())


def test_no_other_top_level_folder_holds_code():
    strangers = {path.relative_to(ROOT).parts[0] for path in ROOT.glob("*/**/*.py")} - ROOMS - {"tests"}
    assert {name for name in strangers if not name.startswith(".") and name != "build"} == set()


def test_every_dependency_says_why_it_is_here():
    lines = (ROOT / "setup.cfg").read_text().split("install_requires =\n")[1].split("\n[")[0].splitlines()
    wanted = [line.strip() for line in lines if line.strip()]
    for reason, requirement in zip(wanted[::2], wanted[1::2], strict=True):
        assert reason.startswith("# "), f"{requirement} has no reason"
        assert not requirement.startswith("#")


def test_every_runtime_dependency_has_a_lowest_and_a_first_forbidden_version():
    lines = [line for line in setup()["options"]["install_requires"].splitlines() if line.strip()]
    wanted = [line for line in lines if not line.startswith("#")]
    assert [line for line in wanted if not re.fullmatch(r"[\w-]+>=[\d.]+,<[\d.]+", line)] == []


def test_the_version_is_the_same_wherever_it_stands():
    version, minor = setup()["metadata"]["version"], setup()["metadata"]["version"].rpartition(".")[0]
    released = re.findall(r"^## ([\d.]+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    folder = ROOT / "systemd/kubernetes"
    chart, image = ((folder / name).read_text() for name in ("chart/Chart.yaml", "kustomization.yaml"))
    assert released[0] == version
    assert re.findall(r"^(?:version|appVersion): (.*)$", chart, re.MULTILINE) == [version, version]
    assert re.findall(r"newTag: (.*)", image) == [version]
    named = {found for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
             for found in re.findall(r"idlewatt[_-]([\d.]+)(?:_amd64\.deb|-py3-none-any)", page.read_text())}
    assert named == {version}
    assert f"## From {released[1].rpartition('.')[0]} to {minor}\n" in (ROOT / "docs/upgrading.md").read_text()
