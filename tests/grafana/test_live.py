"""Every expression of dashboards, rules and alerts, asked of a real Prometheus: on a past, and beside a daemon."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml
from questions import (
    BY_CHANCE,
    ENERGY_SAVED,
    LABELS,
    NO_AGENT,
    NO_ALERT,
    NO_FOLLOWER,
    NO_HOUR,
    NO_RACK,
    NO_RULES,
    NO_WEEK,
    Prometheus,
    Question,
    free_port,
    of_alerts,
    of_dashboards,
    of_rules,
)

from idlewatt.daemon.cli import _past, _prometheus, demo

pytestmark = [pytest.mark.skipif(not _prometheus.installed(), reason="Prometheus is not installed"),
              pytest.mark.timeout(1500)]

NOBODY = "127.0.0.1:1"
NOW_S, DAYS = 1_795_219_200.0, 1.5
HOURS = [NOW_S - hours * 3600.0 for hours in range(12)]
SPEED = 240.0
"""At which six hours of the cluster pass in a minute and a half."""
RANGE_S, WITHIN_S = 120.0, 600.0


def everything() -> list[Question]:
    return of_dashboards() + of_rules() + of_alerts()


def of(places: list[Question], expected: set[str]) -> set[str]:
    """Return those of the expected that are among the places."""
    return expected & {question.where for question in places}


def not_answered_in_time(prometheus: Prometheus, questions: list[Question], expected: set[str]) -> set[str]:
    """Return where there has never been an answer, as soon as nothing else than expected is without."""
    left, deadline, asked_s = set(questions), time.monotonic() + WITHIN_S, time.time()
    while {question.where for question in left} - expected and time.monotonic() < deadline:
        time.sleep(5)
        # Also of the moments since: what an advice said for some seconds must not be missed on a busy machine.
        now_s = time.time()
        left = unanswered(prometheus, left, [now_s - late for late in range(0, int(now_s - asked_s), 5)], RANGE_S)
        asked_s = now_s
    return {question.where for question in left}


def never_answered(prometheus: Prometheus, questions: list[Question], moments: list[float]) -> set[str]:
    """Return where there is no answer at any of the moments: what is empty now need not have been all day."""
    return {question.where for question in unanswered(prometheus, set(questions), moments)}


def unanswered(prometheus: Prometheus, left: set[Question], moments: list[float],
               range_s: float | None = None) -> set[Question]:
    for moment in moments:
        left = Prometheus(prometheus.url, lambda moment=moment: moment).unanswered(left, range_s)
    return left


@pytest.fixture(scope="module")
def past(tmp_path_factory) -> Path:
    """The folder of a day and a half of a simulated cluster: blocks of its pages, and with the rules' series too."""
    folder = tmp_path_factory.mktemp("past")
    cluster = _past.simulated(DAYS, 4, 1, NOW_S)
    with _past.serving(cluster, _past.Time(cluster), folder) as service:
        _past.write(service, cluster, DAYS, folder / "past.om", LABELS, lambda _done: None)
    _prometheus.make_blocks(folder / "past.om", _prometheus.data_of(folder))
    return folder


@contextmanager
def opened(folder: Path, rules: tuple[str, ...] = _prometheus.RULES) -> Iterator[Prometheus]:
    with _prometheus.running(folder, free_port(), DAYS, NOBODY, LABELS, rules) as url:
        yield Prometheus(url, lambda: NOW_S)


def test_a_past_answers_every_dashboard_without_any_rule_but_for_the_panel_that_says_so(past):
    with opened(past, rules=()) as prometheus:
        empty = never_answered(prometheus, of_dashboards(), HOURS)
        assert not empty >= ENERGY_SAVED
        empty -= BY_CHANCE | ENERGY_SAVED
        assert empty == of(of_dashboards(), NO_AGENT | NO_ALERT | NO_RULES | NO_RACK | NO_FOLLOWER | NO_WEEK)


def test_a_past_answers_every_dashboard_rule_and_alert(past):
    with opened(past) as prometheus:
        _prometheus.record(prometheus.url, past, NOW_S - DAYS * 86400, NOW_S, _past.STEP_S)
    with opened(past) as prometheus:
        found = never_answered(prometheus, everything(), HOURS) - BY_CHANCE - ENERGY_SAVED
        assert found == NO_AGENT | NO_ALERT | NO_FOLLOWER | NO_RACK | NO_WEEK


@pytest.fixture(scope="module", params=["slurm", "kubernetes"])
def live(tmp_path_factory, request) -> Iterator[Prometheus]:
    """A Prometheus with our rules that scrapes a daemon on a simulated cluster under either scheduler."""
    folder, port = tmp_path_factory.mktemp("live"), free_port()
    start_s = float(int(time.time()))
    with ExitStack() as stack:
        site = demo.DemoPlan(folder, 4, 1, SPEED, port, request.param)
        simulation = stack.enter_context(demo._simulation(site, start_s, []))
        config = demo.configuration(simulation, site)
        # Closed windows within the minute; and a beat that comes late on a busy machine is no gap.
        config["cycles"]["counterfactual"], config["waste"]["gap_factor"] = "30s", 20
        (folder / "idlewatt.yml").write_text(yaml.safe_dump(config))
        stack.enter_context(demo._daemon(folder / "idlewatt.yml", port, SPEED, start_s, folder, []))
        url = stack.enter_context(_prometheus.running(folder, free_port(), 1, f"127.0.0.1:{port}", LABELS, every="1s"))
        yield Prometheus(url, time.time)


@pytest.mark.long
def test_a_daemon_on_a_simulated_cluster_answers_everything_in_time(live):
    chance, empty = BY_CHANCE | ENERGY_SAVED, NO_AGENT | NO_FOLLOWER | NO_RACK | NO_HOUR | NO_WEEK
    assert not_answered_in_time(live, everything(), empty | chance) - chance == empty
