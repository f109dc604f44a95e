import re
import shutil
import subprocess

import numpy as np
import pytest

from idlewatt.daemon import charts, report, sweep
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.workload import Workload
from idlewatt.daemon.sweep import SweepPlan

HOSTILE = "<script>document.title='owned'</script>"
POLICIES = ("fifo", "sjf-limit+best-fit+easy", "random-feasible", "sjf-oracle+best-fit+easy")


def plan(jobs=300, ids=None):
    random = np.random.default_rng(2)
    run = random.lognormal(6, 1, jobs)
    submit = 1_700_000_000 + np.cumsum(random.exponential(60, jobs))
    work = Workload.of(submit, run, random.integers(1, 17, jobs), limit=2 * run, ids=ids)
    return SweepPlan(Cluster.from_spec("4x8"), work)


def write(path, made, policies=POLICIES, left_out=None):
    outcomes = [sweep.replay(made, policy) for policy in policies]
    report.write_report(path, outcomes, sweep.rows(outcomes, made, policies[0]), made, left_out or {})
    return path.read_text()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    write(path, plan(), left_out={f"bad {HOSTILE}": 3})
    return path


def test_the_page_has_every_plot_and_no_outside_part(page):
    text = page.read_text()
    assert text.count("<svg class=\"plot\"") == 3 + 2 * len(POLICIES)
    for title in ("Share of jobs complete", "Jobs waiting", "GPUs in use", "Where the watts go", "What ran where"):
        assert title in text
    assert not re.search(r"(src|href)=|url\(|@import|<script", text)
    assert "default-src &#39;none&#39;" in text or "default-src 'none'" in text
    assert "2023-11-14" in text
    assert not re.search(r' d="[^"]*nan', text)


def test_names_are_text_and_never_markup(page, tmp_path):
    assert HOSTILE not in page.read_text()
    assert "bad &lt;script&gt;" in page.read_text()
    text = write(tmp_path / "report.html", plan(3, ids=[HOSTILE, "\udce4", "c"]), ("fifo",))
    assert HOSTILE not in text
    assert "&lt;script&gt;" in text


@pytest.mark.long
def test_a_report_stays_small_however_many_jobs_there_are(tmp_path):
    small, large = plan(2_000), plan(60_000)
    sizes = [len(write(tmp_path / "report.html", made, ("fifo",))) for made in (small, large)]
    assert sizes[1] < 1.5 * sizes[0] < 2_000_000


def test_a_run_without_any_job_that_ended_has_a_page_all_the_same(tmp_path):
    none = SweepPlan(Cluster.from_spec("1x1"), Workload.of([0.0], [5.0], [9]))
    assert "larger than the cluster" in write(tmp_path / "report.html", none, ("fifo",))


def test_every_coordinate_lies_within_its_plot(page):
    plot = re.compile(r'<svg class="plot" viewBox="0 0 880 (\d+)".*?>(.*?)</svg>', re.DOTALL)
    for height, body in plot.findall(page.read_text()):
        paths = re.findall(r'<path class="[^"]*" d="([^"]*)"', body)
        numbers = [list(map(float, re.findall(r"-?[\d.]+", path))) for path in paths]
        assert paths
        assert all(0 <= value <= max(880, float(height)) for path in numbers for value in path)


@pytest.mark.browser
@pytest.mark.skipif(not shutil.which("chromium"), reason="Chromium is not installed")
def test_the_page_opens_in_a_browser_with_its_plots_drawn(page, tmp_path):
    words = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile",
             "--window-size=1100,1400"]
    drawn = subprocess.run([*words, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120,
                           check=True)
    assert "<title>Replay of 300 jobs – idlewatt</title>" in drawn.stdout
    assert drawn.stdout.count('class="plot"') == 3 + 2 * len(POLICIES)
    picture = tmp_path / "page.png"
    subprocess.run([*words, f"--screenshot={picture}", page.as_uri()], capture_output=True, timeout=120, check=True)
    assert picture.stat().st_size > 30_000  # an empty page packs into far less


@pytest.mark.parametrize(("high", "ticks"), [
    (0.0, [0.0]), (1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]), (43.0, [0, 10, 20, 30, 40]), (7e5, [0, 2e5, 4e5, 6e5])])
def test_ticks_are_round(high, ticks):
    assert charts.round_ticks(high) == pytest.approx(ticks)


def test_areas_stack_without_gap():
    layers = list(charts.stacked(np.array([[1.0, 2.0], [3.0, 4.0]])))
    np.testing.assert_array_equal(layers[0][1], layers[1][0])
    np.testing.assert_array_equal(layers[1][1], [3.0, 7.0])
