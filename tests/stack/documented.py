"""The commands that the documentation names, page by page."""

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATED = {"commands.md", "configuration.md", "metrics.md"}
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "grafana/README.md",
         *(path for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in GENERATED),
         *sorted((ROOT / "grafana/runbooks").glob("*.md"))]
PROGRAMS = ("ansible-playbook", "apt", "buildah", "chmod", "chown", "cp", "createdb", "createuser", "curl", "dcgmi",
            "dd", "dnf", "docker", "dpkg", "dropdb", "git", "helm", "install", "journalctl", "jq", "kill", "kind",
            "kubectl", "make", "mv", "nvidia-smi", "pg_dump", "pg_restore", "pip", "podman", "promtool", "pytest",
            "python", "python3", "rm", "rpm", "sacct", "sacctmgr", "sbatch", "scancel", "scontrol", "sinfo", "squeue",
            "sqlite3", "ssh", "systemctl", "systemd-analyze", "systemd-sysusers", "systemd-tmpfiles", "tar", "userdel")
"""What counts as a command beside idlewatt itself."""


def text_of(page: Path) -> str:
    """Return a page without its comments."""
    return re.sub(r"<!--.*?-->", "", page.read_text(), flags=re.DOTALL)


def blocks(page: Path, heading: str = "", language: str = "sh") -> list[str]:
    """Return the blocks of a language in a page, or in one section of it."""
    text = text_of(page)
    if heading:
        text = re.split(r"^## ", text.split(f"## {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [block for said, block in found if said == language]


def typed(page: Path) -> list[str]:
    """Return what a reader may type: lines of blocks and what stands between backticks, split at pipes."""
    text = text_of(page)
    fenced = re.findall(r"^ *```(\w*)\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
    inside = [block for language, block in fenced if language in ("", "sh", "text")]
    outside = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)
    lines = [line for block in inside for line in block.splitlines()]
    lines += [line for line in outside.splitlines() if line.startswith("    ")]
    lines += [" ".join(found.split()) for found in re.findall(r"`([^`]+)`", outside)]
    return [part.strip() for line in lines for part in re.split(r"&&|\||;", line.split("  #")[0])]


def commands(page: Path) -> list[list[str]]:
    """Return the arguments of each time that a page starts idlewatt."""
    return [words for words in map(arguments, typed(page)) if words]


def arguments(text: str) -> list[str]:
    """Return the arguments of a line that starts idlewatt, nothing of any other."""
    found = re.match(r"(?:sudo )?(?:\S*/)?idlewatt ([a-z-].*)", text)
    return shlex.split(found[1].split(" > ")[0], comments=True) if found else []


def others(page: Path) -> list[str]:
    """Return the commands of a page that start another program, without sudo and without the folder of the program."""
    found = (re.match(rf"(?:sudo (?:-u \w+ )?)?(?:\S*/)?((?:{'|'.join(PROGRAMS)}) .*)", text) for text in typed(page))
    return [match[1] for match in found if match]
