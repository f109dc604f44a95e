"""The dashboard of the site's own series, asked of a real Prometheus that scrapes a real node_exporter and DCGM."""

import re
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import requests
import yaml
from fake_dcgm import A100, Node
from one_page import one_page
from questions import Prometheus, free_port, of_resources

from idlewatt.daemon.cli import _parts
from idlewatt.exporters.dcgm import RENAMED

EXPORTER = "prometheus-node-exporter"
pytestmark = pytest.mark.skipif(not (shutil.which("prometheus") and shutil.which(EXPORTER)),
                                reason="Prometheus and node_exporter are not installed")
WITHIN_S, RANGE_S = 180.0, 30.0
MORE = {"DCGM_FI_DEV_MEMORY_TEMP": 41, "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": 0x44}
"""Fields of a site's own counters file: held down by the power limit, and by heat."""
NEW = {old: new for new, old in RENAMED.items()}


def dcgm(name: str, folder: Path, *, renamed: bool) -> str:
    """Return a page of dcgm-exporter, with the names of DCGM 4.6 where they are wanted."""
    (folder / name).mkdir()
    (folder / name / "0").write_text("7\n8")  # a GPU that two jobs share is on the page twice
    node = Node(name, A100, folder / name, folder / f"{name}.watts")
    node.step(1.0)
    text = node.page.decode() + "".join(
        f"{field}{{{node.labels(gpu)}}} {value}\n" for field, value in MORE.items() for gpu in range(8))
    return re.sub(r"\bDCGM_\w+", lambda found: NEW.get(found[0], found[0]), text) if renamed else text


def kernel(folder: Path) -> tuple[str, ...]:
    """Return options that show the exporter this kernel, with an InfiniBand port and mounts of NFS and Ceph besides."""
    proc, port = folder / "proc", folder / "sys/class/infiniband/mlx5_0/ports/1"
    (proc / "net/rpc").mkdir(parents=True)
    (proc / "1").mkdir()
    (port / "counters").mkdir(parents=True)
    for name in ("stat", "meminfo", "loadavg", "diskstats", "net/dev"):
        (proc / name).write_text(Path("/proc", name).read_text())
    (proc / "diskstats").write_text("   8       0 sda 100 0 4000 20 50 0 2000 10 0 30 30 0 0 0 0 0 0\n")
    (proc / "net/dev").write_text(
        "Inter-|   Receive                                                |  Transmit\n"
        " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls "
        "carrier compressed\n  eth0: 1000 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0\n")
    # What the kernel of a client of NFS 3 tells: calls by procedure.
    (proc / "net/rpc/nfs").write_text("net 70 70 69 45\nrpc 1218785755 374636 1218815394\nproc3 22 1 4084749 29200 "
                                      "94754 32580 186 47747 7981 8639 0 6356 0 6962 0 7958 0 0 241 4 4 2 39\n")
    mounts = (("/", "/dev/sda1", "ext4"), ("/home", "nas:/home", "nfs4"), ("/data", "mon:/data", "ceph"))
    (proc / "1/mounts").write_text("".join(f"{source} {place} {kind} rw 0 0\n" for place, source, kind in mounts))
    for place, _, _ in mounts:
        (folder / "root" / place.lstrip("/")).mkdir(parents=True, exist_ok=True)
    for name, text in (("state", "4: ACTIVE"), ("phys_state", "5: LinkUp"), ("rate", "200 Gb/sec (4X HDR)")):
        (port / name).write_text(f"{text}\n")
    for name in ("port_rcv_data", "port_xmit_data"):
        (port / "counters" / name).write_text("12345\n")
    for name, text in (("fw_ver", "20.31"), ("board_id", "MT_1"), ("hca_type", "MT4123")):
        (folder / "sys/class/infiniband/mlx5_0" / name).write_text(f"{text}\n")
    collectors = ("cpu", "meminfo", "loadavg", "netdev", "diskstats", "filesystem", "infiniband", "nfs", "uname")
    return (f"--path.procfs={proc}", f"--path.sysfs={folder / 'sys'}", f"--path.rootfs={folder / 'root'}",
            "--collector.disable-defaults", "--no-collector.netdev.netlink",
            *(f"--collector.{name}" for name in collectors))


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[Prometheus]:
    """A Prometheus of a site: two servers, one with each spelling of DCGM; the kernel is ours under both names."""
    folder, exporter, url = tmp_path_factory.mktemp("site"), f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    with ExitStack() as stack:
        pages = [stack.enter_context(one_page(dcgm(name, folder, renamed=renamed)))
                 for name, renamed in (("old", False), ("new.example.org", True))]
        command = (EXPORTER, f"--web.listen-address={exporter}", *kernel(folder))
        stack.enter_context(_parts.child("node_exporter", command, folder / "exporter.log"))
        named = [{"job_name": name, "static_configs": [{"targets": [exporter], "labels": {"instance": f"{name}:9100"}}],
                  "metric_relabel_configs": [{"source_labels": ["nodename"], "regex": ".+", "target_label": "nodename",
                                              "replacement": name}]} for name in ("old", "new.example.org")]
        (folder / "prometheus.yml").write_text(yaml.safe_dump({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": [
                {"job_name": "dcgm", "static_configs": [{"targets": pages}]}, *named]}))
        stack.enter_context(_parts.child("Prometheus", (
            "prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address={url}"), folder / "log"))
        yield Prometheus(f"http://{url}", time.time)


def in_time(ask, good):
    """Return an answer as soon as it is good, and whatever it is when time is up."""
    deadline, pause = time.monotonic() + WITHIN_S, threading.Event()
    while True:
        try:
            found = ask()
        except requests.RequestException:
            found = None
        if good(found) or time.monotonic() > deadline:
            return found
        pause.wait(0.5)


def chosen(question, node):
    question.variables["node"] = node
    return question


def test_every_panel_is_answered_by_real_exporters_under_both_spellings_of_dcgm(site):
    def unanswered():
        return {question.where for question in site.unanswered(of_resources(), RANGE_S)}

    assert in_time(unanswered, lambda found: found == set()) == set()

    def of_one_server():
        """Return the panels that know one of the servers: of the other a rate may still miss its second scrape."""
        hosts = {question.where: {series["metric"].get("node") for series in site.answer(question, RANGE_S)} - {None}
                 for question in of_resources()}
        return {where for where, found in hosts.items() if found not in (set(), {"old", "new.example.org"})}

    assert in_time(of_one_server, lambda found: found == set()) == set()


def test_every_panel_obeys_the_node_that_is_chosen_with_a_domain_or_without(site):
    test_every_panel_is_answered_by_real_exporters_under_both_spellings_of_dcgm(site)
    for question in (chosen(question, "new") for question in of_resources()):
        found = site.answer(question, RANGE_S)
        assert found, question.where
        assert {series["metric"].get("node", "new.example.org") for series in found} == {"new.example.org"}
    for question in (chosen(question, "ne") for question in of_resources()):
        assert site.answer(question, RANGE_S) == [], question.where


def test_figures_are_those_of_the_pages(site):
    def value(title):
        (question,) = [question for question in of_resources() if question.where == f"resources: {title} A"]
        found = in_time(lambda: site.answer(chosen(question, "old"), RANGE_S), bool)
        return float(found[0]["value"][1])

    assert value("GPUs that are measured") == 8
    assert value("Power of the GPUs") > 8 * A100.idle_watts
    assert 0 < value("Mean utilisation of GPUs") < 1 / 8
    throttled = [question for question in of_resources() if question.where.startswith("resources: GPUs that are thr")]
    last = [float(site.answer(chosen(question, "old"), RANGE_S)[0]["values"][-1][1]) for question in throttled]
    assert last == [8, 0, 0, 8, 0], "by power limit, slowdown, heat of software and hardware, power brake"
