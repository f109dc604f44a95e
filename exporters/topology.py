"""Topology from where a site keeps it: Slurm's ``topology.conf``, ``nvidia-smi topo -m``, Kubernetes labels, a table.

Everything here is text to records; nothing is fetched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from ..storage.topology import Fabric, GpuLinks, Switch, TopologyError
from . import domains
from .hostlist import expand

MAX_LINES = 100_000
MAX_GPUS = 64
"""No server of today carries more; a longer table is not one."""

_PAIR = re.compile(r"(\w+)=(\S+)")
_GPU = re.compile(r"GPU(\d+)")
_NVLINK = re.compile(r"NV(\d+)")
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def parse_switches(text: str) -> Fabric:
    """Return the fabric of a ``topology.conf``, or of what ``scontrol show topology`` prints; both read alike.

    Blocks (topology/block) are NVLink domains.

    Raises:
        TopologyError: with the line at fault, or what is wrong with the tree as a whole.
    """
    switches: dict[str, Switch] = {}
    blocks: list[tuple[str, tuple[str, ...]]] = []
    for number, line in _logical_lines(text):
        if (block := domains.block_of(number, line)) is not None:
            blocks.append(block)
            continue
        facts = {key.lower(): value for key, value in _PAIR.findall(line)}
        if "switchname" not in facts:
            raise TopologyError(f"line {number}: no SwitchName in {line[:80]!r}")
        below = facts.get("switches", "")
        # `scontrol show topology` repeats, for a switch above others, all nodes that hang below it.
        nodes = "" if below else facts.get("nodes", "")
        try:
            switch = Switch(facts["switchname"], expand(nodes), expand(below))
        except ValueError as error:
            raise TopologyError(f"line {number}: {error}") from error
        if switches.setdefault(switch.name, switch) != switch:
            raise TopologyError(f"line {number}: switch {switch.name} is described twice, differently")
    return domains.within_one_tree(Fabric.of(switches.values(), domains.domains_of(blocks)))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines without comments, those that end in a backslash joined with the next, as slurm.conf(5) has it."""
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        raise TopologyError(f"{len(lines)} lines: no topology is so long (at most {MAX_LINES})")
    begun, first = "", 1
    for number, raw in enumerate(lines, 1):
        line = raw.split("#", 1)[0].rstrip()
        if not begun:
            first = number
        if line.endswith("\\"):
            begun += line[:-1] + " "
            continue
        line = (begun + line).strip()
        begun = ""
        if line:
            yield first, line
    if begun.strip():
        yield first, begun.strip()


def parse_table(text: str) -> Fabric:
    """Return the fabric of a CSV table with each node and the switches above it, the topmost first: ``ip,DSW,PSW,ASW``.

    As Alibaba published that of Lingjun (2023). Switches are named after those above them (``G6/P10/S14``), since their
    numbers restart below each.

    Raises:
        TopologyError: with the line at fault, or what is wrong with the tree as a whole.
    """
    rows = [(number, [cell.strip() for cell in line.split(",")]) for number, line in _logical_lines(text)]
    if len(rows) < 2 or len(rows[0][1]) < 2:
        raise TopologyError("not a table of nodes and switches: it needs a heading, rows, and at least two columns")
    nodes: dict[str, list[str]] = {}
    below: dict[str, set[str]] = {}
    for number, cells in rows[1:]:
        if len(cells) != len(rows[0][1]) or not all(cells):
            raise TopologyError(f"line {number}: {len(rows[0][1])} columns are needed, none of them empty")
        path = ["/".join(cells[1:end]) for end in range(2, len(cells) + 1)]
        nodes.setdefault(path[-1], []).append(cells[0])
        for upper, lower in pairwise(path):
            below.setdefault(upper, set()).add(lower)
    return Fabric.of([*(Switch(name, tuple(some)) for name, some in nodes.items()),
                      *(Switch(name, (), tuple(sorted(some))) for name, some in below.items())])


def parse_labels(nodes: Mapping[str, Mapping[str, str]]) -> Fabric:
    """Return the fabric that the labels of nodes tell, labels by name of node; nodes without such labels hang nowhere.

    Raises:
        TopologyError: one leaf below two spines.
    """
    return domains.of_labels(nodes)


def labels_of(listing: object) -> dict[str, dict[str, str]]:
    """Return the labels by node of a Kubernetes NodeList (``kubectl get nodes -o json``), else TopologyError."""
    items = listing.get("items") if isinstance(listing, dict) else None
    if not isinstance(items, list):
        raise TopologyError("not a list of Kubernetes nodes: no items")
    links: dict[str, dict[str, str]] = {}
    for place, item in enumerate(items):
        metadata = item.get("metadata") if isinstance(item, dict) else None
        name = metadata.get("name") if isinstance(metadata, dict) else None
        labels = (metadata.get("labels") or {}) if isinstance(metadata, dict) else None
        if not isinstance(name, str) or not isinstance(labels, dict):
            raise TopologyError(f"items[{place}]: no node with metadata.name and labels")
        links[name] = {str(key): str(value) for key, value in labels.items()}
    return links


def parse_matrix(text: str) -> GpuLinks:
    """Return the GPUs of one node as ``nvidia-smi topo -m`` shows them; NICs in the table are left out.

    Raises:
        TopologyError: no table of GPUs, a row too short, an unknown link, or a link that is another one way than back.
    """
    rows = [_ESCAPE.sub("", line).rstrip() for line in text.splitlines()]
    head = next((place for place, row in enumerate(rows) if _is_head(row)), None)
    if head is None:
        raise TopologyError("not a table of `nvidia-smi topo -m`: no line that begins with GPU columns")
    columns = [cell.strip() for cell in rows[head].split("\t")]
    seen: dict[tuple[int, int], str] = {}
    numa: dict[int, int] = {}
    for row in rows[head + 1:]:
        cells = [cell.strip() for cell in row.split("\t")]
        match = _GPU.fullmatch(cells[0])
        if match:
            _read_row(int(match[1]), columns, cells, seen, numa)
    return _links(seen, numa)


def _is_head(row: str) -> bool:
    cells = [cell.strip() for cell in row.split("\t")]
    return cells[0] == "" and len(cells) > 1 and _GPU.fullmatch(cells[1]) is not None


def _read_row(gpu: int, columns: list[str], cells: list[str], seen: dict[tuple[int, int], str],
              numa: dict[int, int]) -> None:
    wanted = sum(1 for column in columns if _GPU.fullmatch(column))
    if len(cells) <= wanted:
        raise TopologyError(f"GPU{gpu}: {len(cells) - 1} columns, but the table has {wanted} GPUs")
    for column, cell in zip(columns, cells, strict=False):
        match = _GPU.fullmatch(column)
        if match:
            seen[gpu, int(match[1])] = cell
        elif column == "NUMA Affinity" and cell.isdigit():
            numa[gpu] = int(cell)


def _links(seen: Mapping[tuple[int, int], str], numa: Mapping[int, int]) -> GpuLinks:
    gpus = sorted({gpu for gpu, _ in seen} | {other for _, other in seen})
    if not gpus or len(gpus) > MAX_GPUS:
        raise TopologyError(f"a table of {len(gpus)} GPUs")
    links, lanes = dict[tuple[int, int], str](), dict[tuple[int, int], int]()
    for place, gpu in enumerate(gpus):
        for other in gpus[place + 1:]:
            there, back = seen.get((gpu, other)), seen.get((other, gpu))
            if there != back or there is None:
                raise TopologyError(f"GPU{gpu} reaches GPU{other} by {there}, but back it is {back}")
            bonded = _NVLINK.fullmatch(there)
            if bonded is None and there not in ("PIX", "PXB", "PHB", "NODE", "SYS"):
                raise TopologyError(f"GPU{gpu} to GPU{other}: unknown link {there[:20]!r}")
            links[gpu, other] = "NVLINK" if bonded else there
            if bonded:
                lanes[gpu, other] = int(bonded[1])
    return GpuLinks(tuple(gpus), links, lanes, dict(numa))
