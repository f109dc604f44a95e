"""A known kilowatt for an hour is a kilowatt-hour on dashboards: page, daemon, Prometheus, the panels' expressions."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from questions import LABELS, Prometheus, free_port, of_dashboards

from idlewatt.daemon import config
from idlewatt.daemon.cli import _openmetrics, _prometheus
from idlewatt.daemon.service import Service
from idlewatt.daemon.view import DaemonView
from idlewatt.exporters.publish import registry
from idlewatt.exporters.simulated.direct import DirectConfig
from idlewatt.storage.history import History
from idlewatt.storage.records import Node, Partition, SchedulerSnapshot

pytestmark = pytest.mark.skipif(not _prometheus.installed(), reason="Prometheus is not installed")

START_S, STEP_S, HOUR_S = 1_795_132_800.0, 15, 3600
ON, OFF = b"ipmi_dcmi_power_consumption_watts 1000\n", b"ipmi_chassis_power_state 0\n"
KILOWATT_HOURS = {"cluster-waste: Wasted, 24 hours A", "cluster-waste: Wasted, 30 days A",
                  "cluster-waste: Energy in the time range, by class A", "cluster-waste: Wasted, by partition A"}
COSTS = {"cluster-waste: Cost, 24 hours A", "cluster-waste: Cost, 30 days A", "cluster-waste: Wasted, by partition B",
         "cluster-waste: Cost in the time range, by class A"}
HALF_PAST = datetime.fromtimestamp(START_S + HOUR_S / 2, UTC).strftime("%H:%M")


class Meter(ThreadingHTTPServer):
    """The page of an ipmi_exporter."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Page)
        self.page = OFF


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = self.server.page
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


class EmptyNode:
    """A scheduler that has one node without GPUs, on which nothing runs: all of its power is wasted."""

    name, role = "slurm", "scheduler"

    def __init__(self, clock) -> None:
        self._clock = clock

    def read(self) -> SchedulerSnapshot:
        return SchedulerSnapshot(self._clock(), (Node("n1", ("batch",), 0, cpus=64),), (Partition("batch", ("n1",)),))

    def health(self) -> tuple[()]:
        return ()

    def close(self) -> None:
        pass


class Clock:
    now_s = START_S

    def __call__(self) -> float:
        return self.now_s


@contextmanager
def serving(folder: Path, meter: Meter, clock: Clock) -> Iterator[Service]:
    target = f"{{targets: ['127.0.0.1:{meter.server_port}'], labels: {{node: n1}}}}"
    settings = config.parse(f"storage: {{url: 'sqlite:///{folder}/idlewatt.db'}}\n"
                            "costs: {currency: USD, per_kwh: 0.1, tariffs: [{since: '" + HALF_PAST + "', "
                            "until: '23:59', per_kwh: 0.2}]}\n"
                            f"sources: [{{kind: ipmi, static_configs: [{target}]}}]\n")
    settings = settings.model_copy(update={
        "sources": (*settings.sources, DirectConfig(kind="slurm_rest", source=EmptyNode(clock)))})
    service = Service(settings, History.open(settings.storage.url), clock)
    thread = Thread(target=meter.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        service.stop()
        meter.shutdown()
        meter.server_close()


@pytest.fixture(scope="module")
def hour(tmp_path_factory) -> Iterator[Prometheus]:
    """A Prometheus on two hours, in the middle one of which the node was on and its meter showed 1,000 W."""
    folder, meter, clock = tmp_path_factory.mktemp("hour"), Meter(), Clock()
    with serving(folder, meter, clock) as service, (folder / "hour.om").open("w") as out:
        page, pages = registry(DaemonView(service, lambda: service.settings).published), _openmetrics.PageWriter(LABELS)
        for second in range(-HOUR_S // 2, 3 * HOUR_S // 2 + 1, STEP_S):
            clock.now_s, meter.page = START_S + second, ON if 0 <= second < HOUR_S else OFF
            for cycle in ("jobs", "scrape", "assess"):
                service.beat.run(cycle)
            out.writelines(pages.lines(page.collect(), clock.now_s))
        out.write(_openmetrics.END)
    _prometheus.make_blocks(folder / "hour.om", _prometheus.data_of(folder))
    with _prometheus.running(folder, free_port(), 2, "127.0.0.1:1", LABELS, rules=()) as url:
        yield Prometheus(url, clock)


def shown(prometheus: Prometheus, where: str) -> float:
    """Return the sum of what a panel shows."""
    (question,) = [question for question in of_dashboards() if question.where == where]
    return sum(float(series["value"][1]) for series in prometheus.answer(question))


@pytest.mark.parametrize("where", sorted(KILOWATT_HOURS))
def test_a_kilowatt_for_an_hour_is_a_kilowatt_hour_on_the_gpus_in(hour, where):
    assert shown(hour, where) == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize("where", sorted(COSTS))
def test_each_half_of_it_costs_what_it_cost_then(hour, where):
    """Half of it at 0.10, half of it at 0.20."""
    assert shown(hour, where) == pytest.approx(0.15, rel=0.01)


def test_no_panel_of_energy_or_money_is_left_out():
    shows = {question.where for question in of_dashboards() if "_joules_total" in question.expr
             and "simulated" not in question.expr}
    assert shows == KILOWATT_HOURS | COSTS
