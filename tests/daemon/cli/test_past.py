"""A past is what the daemon would have seen; whoever breaks it off finds nothing half done."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import requests
from click.testing import CliRunner
from questions import LABELS, free_port

from idlewatt.daemon import opening
from idlewatt.daemon.cli import _opening, _past, _prometheus, demo
from idlewatt.storage.history import History

NOW_S, DAYS = 1_795_219_200.0, 0.1
LOOKS = int(DAYS * _past.DAY_S / _past.STEP_S)
PROMETHEUS = pytest.mark.skipif(not _prometheus.installed(), reason="Prometheus is not installed")


def written(folder: Path, seed: int = 1) -> str:
    """Return the OpenMetrics of a short past."""
    folder.mkdir()
    cluster, days = _past.simulated(DAYS, 4, seed, NOW_S), []
    with _past.serving(cluster, _past.Time(cluster), folder) as service:
        _past.write(service, cluster, DAYS, folder / "past.om", LABELS, days.append)
        assert not any(health.failures for health in service.beat.health().values())
    assert days[-1] == pytest.approx(DAYS)
    assert [path.name for path in folder.glob("past.*")] == ["past.om"]
    return (folder / "past.om").read_text()


@pytest.fixture(scope="module", autouse=True)
def compiled_here() -> Iterator[None]:
    """Let decisions compile here, once for a worker, and in no child of each service."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(opening, "warm_up", lambda settings: SimpleNamespace(over=lambda: True, end=lambda: None))
        yield


def idlewatts(text: str) -> list[str]:
    """Return the lines that are about the cluster, not about this process and its speed."""
    return [line for line in text.splitlines() if re.match("idlewatt_(?!.*duration|database)", line)]


@pytest.fixture(scope="module")
def past(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("past") / "one"
    written(folder)
    return folder


@pytest.mark.long
def test_the_same_seed_is_the_same_past_and_another_is_another(past, tmp_path):
    text = idlewatts((past / "past.om").read_text())
    assert idlewatts(written(tmp_path / "again")) == text
    assert idlewatts(written(tmp_path / "other", seed=2)) != text


def test_every_page_says_when_and_by_whom_it_was_scraped(past):
    *lines, end = (past / "past.om").read_text().splitlines()
    assert end == "# EOF"
    times = [float(line.rsplit(" ", 1)[1]) for line in lines]
    assert times == sorted(times)
    assert set(times) == {NOW_S - DAYS * 86400 + (look + 1) * _past.STEP_S for look in range(LOOKS)}
    assert all('cluster="gist",instance="127.0.0.1:9723",job="idlewatt"' in line for line in lines)


def test_the_classes_add_up_to_the_wall_at_every_moment(past):
    sums = {name: {} for name in ("idlewatt_power_watts", "idlewatt_node_power_watts")}
    for line in (past / "past.om").read_text().splitlines()[:-1]:
        name, (value, time_s) = line.split("{")[0], line.rsplit(" ", 2)[1:]
        if name in sums:
            sums[name][time_s] = sums[name].get(time_s, 0.0) + float(value)
    classes, walls = sums.values()
    assert classes == pytest.approx(walls)
    assert len(walls) == LOOKS


def test_the_history_holds_the_jobs_of_the_past(past):
    with History.read_only(f"sqlite:///{past / 'idlewatt.db'}") as history:
        assert history.following()


def test_an_interrupted_past_leaves_no_incomplete_file(tmp_path):
    cluster = _past.simulated(DAYS, 4, 1, NOW_S)

    def enough(done: float) -> None:
        if done > DAYS / 2:
            raise KeyboardInterrupt

    with _past.serving(cluster, _past.Time(cluster), tmp_path) as service, pytest.raises(KeyboardInterrupt):
        _past.write(service, cluster, DAYS, tmp_path / "past.om", LABELS, enough)
    assert list(tmp_path.glob("past.*")) == []


@PROMETHEUS
def test_what_the_rules_would_have_recorded_is_found_in_long_pasts_too(past, tmp_path, monkeypatch):
    monkeypatch.setattr(_prometheus, "MOST_POINTS", 10)  # several questions a rule
    (tmp_path / "past.om").write_text((past / "past.om").read_text())
    _prometheus.make_blocks(tmp_path / "past.om", _prometheus.data_of(tmp_path))
    with _prometheus.running(tmp_path, free_port(), 1, "127.0.0.1:1", LABELS) as url:
        _prometheus.record(url, tmp_path, NOW_S - DAYS * 86400, NOW_S, _past.STEP_S)
    with _prometheus.running(tmp_path, free_port(), 1, "127.0.0.1:1", LABELS) as url:
        counted = {name: _prometheus._range(url, f"count_over_time({name}[1d])", NOW_S, NOW_S, 60.0)
                   for name in ("partition:idlewatt_wasted_power:ratio", "idlewatt_unmeasured_gpus")}
    assert [[series["values"][0][1] for series in found] for found in counted.values()] == [[str(LOOKS)] * 2] * 2


def refused(*arguments: str) -> str:
    done = CliRunner().invoke(demo.command, arguments)
    assert done.exit_code
    return done.output


def test_what_cannot_work_is_said_before_the_past_is_made(tmp_path, monkeypatch):
    (tmp_path / "something").touch()
    assert "is not empty" in refused("--days", "1", "--dir", str(tmp_path))
    assert "leave --speed out" in refused("--days", "1", "--speed", "60")
    with _opening.listen(f"127.0.0.1:{(port := free_port())}"):
        assert f"127.0.0.1:{port}" in refused("--days", "1", "--port", str(port), "--dir", str(tmp_path / "new"))
    monkeypatch.setattr(_prometheus, "PROGRAMS", ("no-such-program",))
    assert "install prometheus" in refused("--days", "1")


@pytest.mark.long
@PROMETHEUS
def test_the_demo_opens_its_past_goes_on_and_ends_without_leaving_anyone(tmp_path):
    ports = free_port(), free_port()
    command = (sys.executable, "-m", "idlewatt.daemon.cli", "demo", "--days=0.1", f"--port={ports[0]}",
               f"--prometheus-port={ports[1]}", f"--dir={tmp_path}")
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as show:
        try:
            assert any("source slurm_rest" in line for line in show.stdout)
            now_s = time.time()
            samples = _prometheus._range(urls[1], "count_over_time(idlewatt_unmeasured_gpus[1d])", now_s, now_s, 60)
            assert [int(series["values"][0][1]) >= LOOKS for series in samples] == [True, True]
            assert "idlewatt_power_watts{" in requests.get(f"{urls[0]}/metrics", timeout=60).text
            show.send_signal(signal.SIGINT)
            assert "the demo has ended" in show.stdout.read()
            assert show.wait(30) == 0
        finally:
            show.kill()
    for url in urls:
        with pytest.raises(requests.ConnectionError):
            requests.get(url, timeout=60)
