"""The episodes on a real partition are those of the simulation, as far as a cluster answers at once."""

import re
from types import SimpleNamespace

import pytest

from idlewatt.daemon.agents.gist_mdrl.environment import A100, HOUR_S, Environment, play
from idlewatt.daemon.reproduce.failures import ReproductionError
from idlewatt.daemon.reproduce.gist.exact import sequences
from idlewatt.daemon.reproduce.gist.real.cluster import rules_of
from idlewatt.daemon.reproduce.gist.real.config import RealSettings
from idlewatt.daemon.reproduce.gist.real.episode import PlayedEpisode
from idlewatt.daemon.reproduce.gist.real.policies import Delay, Players, chosen
from idlewatt.daemon.reproduce.gist.real.report import PlayedAndPredicted, facts, write
from idlewatt.daemon.reproduce.gist.real.run import _keep, done

SERVERS = ("g1", "g2")
HOUR = 10.0
"""Of the clock that is stepped here."""


class Instant:
    """A cluster that does at once what it is told, on a clock that only moves when it is told to."""

    def __init__(self, late_s=0.0):
        self.late_s = late_s
        self.now_s, self.notes, self.seconds, self.node = 0.0, {}, {}, {}

    def submit(self, name, partition, gpus, servers, seconds):
        self.seconds[name] = seconds
        return name

    def advise(self, job, partition, node):
        self.node[job] = node

    def withdraw(self, job):
        self.node.pop(job, None)

    def now(self):
        return self.now_s

    def release(self, job):
        self.notes[job] = self.now_s + self.late_s, self.node.get(job, SERVERS[0])

    def begun(self, name):
        note = self.notes.get(name)
        return note if note is not None and note[0] <= self.now_s else None

    def ended(self, name):
        at_s = self.notes[name][0] + self.seconds[name] if name in self.notes else None
        return at_s if at_s is not None and at_s <= self.now_s else None


def settings(tmp_path, **more):
    return RealSettings(partitions=("p1",), scratch=tmp_path, **more)


@pytest.mark.parametrize("policy", ["random", "first_fit"])
def test_on_a_cluster_without_delays_an_episode_equals_the_simulated_one(tmp_path, policy):
    players = Players(settings(tmp_path), tmp_path)
    for number in chosen(A100, 9):
        sequence = sequences(A100)[number]
        cluster = Instant()
        episode = PlayedEpisode(cluster, A100, "p1", SERVERS, "e", sequence, players.player(policy, number), HOUR, True,
                                0.0)
        played = None
        while played is None:
            played = episode.poll(cluster.now_s, set(cluster.node))
            cluster.now_s += HOUR / 20
        wanted = play(Environment(A100), sequence, players.player(policy, number))
        assert played.utilization == pytest.approx(wanted.utilization, abs=0.003)
        assert played.terminal_start_h == pytest.approx(wanted.terminal_start_s / HOUR_S, abs=1.5)
        assert played.strayed == 0
        assert players.predicted(policy, number)[:2] == pytest.approx(
            (wanted.utilization, wanted.terminal_start_s / HOUR_S))
        assert played.decisions == players.predicted(policy, number).decisions


@pytest.mark.parametrize("number", [0, 27, 40, 80])
def test_the_report_separates_start_delays_from_errors_of_the_simulation(tmp_path, number):
    players, cluster = Players(settings(tmp_path), tmp_path), Instant(late_s=2 * HOUR)
    episode = PlayedEpisode(cluster, A100, "p1", SERVERS, "e", sequences(A100)[number],
                            players.player("first_fit", number),
                            HOUR, True, 0.0)
    played = None
    while played is None:
        played = episode.poll(cluster.now_s, set(cluster.node))
        cluster.now_s += HOUR / 20
    assert played.slurm_s == pytest.approx(2 * HOUR, abs=HOUR / 10)
    scale = HOUR_S / HOUR
    late = players.predicted("first_fit", number, Delay(played.latency_s * scale, played.noticed_s * scale))
    assert played.utilization == pytest.approx(late.utilization, abs=0.003)
    assert abs(played.utilization - players.predicted("first_fit", number).utilization) > 0.003


def result(policy, number, utilization, predicted=0.7):
    return PlayedAndPredicted(policy, number, utilization, 400.0, predicted, 401.0, 0.5, 0, 6, predicted - 0.01, 0.3,
                              0.1,
                              number < 9)


def test_the_report_is_paired_and_the_error_is_a_figure_of_its_own(tmp_path):
    results = [result(policy, number, base + number / 100) for policy, base in (("random", 0.6), ("improved", 0.7))
               for number in range(3)] + [result("improved", 9, 0.9)]
    summary = facts(settings(tmp_path, policies=("random", "improved")), results)
    (difference,) = summary["differences"]
    assert (summary["pairs"], summary["episodes"]) == (3, 7)
    assert difference["utilization"] == pytest.approx({"mean": 0.1, "low": 0.1, "high": 0.1})
    assert summary["within"] == 1
    text = write(settings(tmp_path, policies=("random", "improved")), results, tmp_path)["report"].read_text()
    assert "1 took other decisions; they are off by 0.2000 without sign" in text
    assert "0.20 s late until `follow` had placed it, 0.30 s by Slurm's own" in " ".join(text.split())
    assert re.search(r"\*\*Sim to real:\*\* U differs from its prediction by [+-]0\.\d{4} \(", text)


def test_finished_episodes_are_repeated_only_for_another_experiment(tmp_path):
    own = settings(tmp_path)
    _keep(own, tmp_path, result("random", 4, 0.6))
    (tmp_path / "real.jsonl").open("a").write('{"key": "half a li')
    assert done(own, tmp_path) == {("random", 4): result("random", 4, 0.6)}
    assert done(settings(tmp_path, hour="2s"), tmp_path) == {}
    assert done(settings(tmp_path, sequences=40), tmp_path).keys() == {("random", 4)}


def test_the_follower_may_act_only_on_its_own_partitions_and_user(tmp_path):
    rules = rules_of(settings(tmp_path, user="games"))
    assert (rules.allow.partitions, rules.allow.users) == (("p1",), ("games",))


def test_a_partition_of_another_size_is_refused(tmp_path):
    from idlewatt.daemon.reproduce.gist.real.cluster import RealSlurm

    lone = SimpleNamespace(_run=lambda *words: "g1\ng1\n")
    with pytest.raises(ReproductionError, match="p1 has 1 servers, and the paper's 2"):
        RealSlurm.servers(lone, "p1", A100)


def test_twenty_sequences_are_spread_over_all():
    numbers = chosen(A100, 20)
    assert (numbers[0], numbers[-1], len(set(numbers))) == (0, 80, 20)
