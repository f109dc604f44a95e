"""The demo starts its parts in order, says what is wrong, and leaves nobody behind."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
import requests
import yaml
from click.testing import CliRunner

from idlewatt.daemon.causes.windows import LONGEST_GAP_S
from idlewatt.daemon.cli import _hardware, _parts, demo, live
from idlewatt.daemon.cli._parts import TABLE_2_HOUR_S, table_2
from idlewatt.daemon.config import load
from idlewatt.exporters.simulated.cluster import ClusterShape
from idlewatt.exporters.simulated.jobs import flavors
from idlewatt.exporters.source import kinds


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def wanted(folder, scheduler="slurm", hardware="dgx"):
    return demo.DemoPlan(folder, _hardware.usual_nodes(hardware), 1, 60.0, 9723, scheduler, hardware)


@pytest.mark.parametrize("scheduler", demo.TARGETS)
def test_the_configuration_names_sources_that_exist(tmp_path, scheduler):
    for source in demo.configuration("http://127.0.0.1:22002", wanted(tmp_path, scheduler=scheduler))["sources"]:
        kinds()[source["kind"]].model_validate(source)


@pytest.mark.parametrize("hardware", demo.HARDWARE)
def test_the_configuration_of_each_hardware_is_one_that_the_daemon_takes(tmp_path, hardware):
    path = demo._write_config(wanted(tmp_path, hardware=hardware), "http://127.0.0.1:22002")
    assert load(path).cluster.startswith("GIST" if hardware == "dgx" else hardware)


def test_the_demo_reads_gpus_often_enough_for_the_analysis_of_causes(tmp_path):
    """Every fifteen seconds of ours were fifteen minutes of theirs: no cause was ever told."""
    for hardware in demo.HARDWARE:
        settings = load(demo._write_config(wanted(tmp_path, hardware=hardware), "http://127.0.0.1:22002"))
        beat = max(settings.recommenders.of("causes").every, settings.cycles.scrape)
        assert beat * demo.SPEED <= LONGEST_GAP_S / 2


def test_other_hardware_has_no_past_and_no_pods():
    for more in (["--days", "1"], ["--scheduler", "kubernetes"]):
        done = CliRunner().invoke(demo.command, ["--hardware", "mi300x", *more])
        assert (done.exit_code, "leave --days or --scheduler out" in done.output) == (2, True)


def test_flavours_are_table_2_in_the_hours_of_the_simulated_cluster():
    assert ClusterShape().hour_s == TABLE_2_HOUR_S
    told = {one["name"]: (one["gpus"], one["limit"]) for one in table_2(TABLE_2_HOUR_S)}
    assert told == {one.name: (one.gpus,
                               one.limit_s) for some in flavors(ClusterShape().hour_s).values() for one in some}


def test_the_written_configuration_is_the_one_described(tmp_path):
    path = demo._write_config(wanted(tmp_path), "http://127.0.0.1:22002")
    assert yaml.safe_load(path.read_text()) == demo.configuration("http://127.0.0.1:22002", wanted(tmp_path))


def test_the_simulation_ends_with_its_context(tmp_path):
    with demo._simulation(wanted(tmp_path), time.time(), []) as url:
        assert requests.get(f"{url}/slurm/v0.0.38/ping", timeout=60).status_code == 200
    with pytest.raises(requests.ConnectionError):
        requests.get(f"{url}/slurm/v0.0.38/ping", timeout=60)


def test_the_demo_ends_and_says_so_when_its_cluster_has_died(shell, tmp_path, capfd):
    parts = []
    with demo._simulation(wanted(tmp_path), time.time(), parts):
        demo._looking_after(parts)(0.0)  # all are well
        parts[0].running.kill()
        parts[0].running.wait()
        with pytest.raises(_parts.DemoError, match=r"the simulated cluster has died \(signal 9\), so the demo ends"):
            live.watch(shell.url, pause=lambda seconds: demo._looking_after(parts)(0.0))
    assert "source slurm_rest" in capfd.readouterr().out


def test_a_daemon_that_has_the_port_is_not_shown_as_the_demo(shell, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "_rehearse", lambda *_: None)
    port = shell.url.rpartition(":")[2]
    done = CliRunner().invoke(demo.command, ["--once", "--dir", str(tmp_path), "--port", port])
    assert done.exit_code == 1, done.output
    assert "choose another with --port" in done.output


def test_the_simulation_ends_with_its_parent(tmp_path):
    child = subprocess.Popen((sys.executable, "-m", "idlewatt.exporters.simulated"), stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)
    assert child.stdout.readline().startswith(b"http://127.0.0.1:")
    child.stdin.close()
    assert child.wait(10) == 0
    child.stdout.close()


def test_a_part_that_ends_at_once_is_reported_with_its_last_words(tmp_path):
    log = tmp_path / "part.log"
    with (_parts.python("the part", ("-c", "import sys; sys.exit('port 22003 is taken')"), log) as child,
          pytest.raises(_parts.DemoError, match=r"(?s)the part ended with status 1.*port 22003 is taken")):
        _parts.answered("the part", child, log, lambda: "")


def test_a_part_that_never_comes_up_is_not_waited_for_forever(tmp_path, monkeypatch):
    monkeypatch.setattr(_parts, "READY_WITHIN_S", 0.3)
    log = tmp_path / "part.log"
    with (_parts.python("the part", ("-c", "import time; time.sleep(60)"), log) as child,
          pytest.raises(_parts.DemoError, match="takes too long")):
        _parts.answered("the part", child, log, lambda: "")
    assert not alive(child.pid)


def test_a_part_that_ignores_sigterm_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(_parts, "STOP_WITHIN_S", 0.3)
    log = tmp_path / "part.log"
    stubborn = ("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
                "print('up', flush=True); time.sleep(60)")
    with _parts.python("the part", ("-c", stubborn), log) as child:
        _parts.answered("the part", child, log, log.read_text)
    assert child.returncode == -signal.SIGKILL


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture
def show(tmp_path) -> Iterator[subprocess.Popen]:
    """The whole demo, its output in a pipe."""
    command = (sys.executable, "-m", "idlewatt.daemon.cli", "demo", f"--port={free_port()}", f"--dir={tmp_path}")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as show:
        yield show
        show.kill()


def read_until(show: subprocess.Popen, text: str) -> str:
    """Return what the demo prints up to and with a line that holds ``text``."""
    seen = ""
    for line in show.stdout:
        seen += line
        if text in line:
            return seen
    raise AssertionError(f"{text!r} never came, only:\n{seen}")


# SIGTERM becomes what Ctrl-C is: one demo shows both ways out.
@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGTERM])
def test_the_whole_demo_shows_the_waste_and_ends_without_leaving_anyone(show, number):
    text = read_until(show, "source slurm_rest")
    assert "start on dgx-v100-02:2" in text
    if "at the wall" not in text:  # on a busy machine a meter may answer only after the first summary
        read_until(show, "at the wall")
    urls = re.findall(r"http://127.0.0.1:\d+", text)
    assert len(set(urls)) == 2
    show.send_signal(number)
    assert "the demo has ended" in show.stdout.read()
    assert show.wait(30) == 0
    for url in set(urls):
        with pytest.raises(requests.ConnectionError):
            requests.get(url, timeout=60)
