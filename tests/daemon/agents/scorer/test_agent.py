"""The scorer in service: loads only what is whole, decides as it was replayed, doubts itself, gives its reasons."""

import itertools
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from idlewatt.daemon.agents.checkpoint import CARD, WEIGHTS, CheckpointError
from idlewatt.daemon.agents.doubts import strange_jobs, wrong_size
from idlewatt.daemon.agents.kinds import kinds
from idlewatt.daemon.agents.scorer.agent import Scorer, load
from idlewatt.daemon.agents.scorer.network import INPUTS, layer
from idlewatt.daemon.replay.cluster import Cluster, NodeEvent
from idlewatt.daemon.replay.engine import decisions, forecast, run
from idlewatt.daemon.replay.workload import Workload

from .conftest import small
from .test_network import crowded


@pytest.fixture(scope="module")
def scorer(trained):
    return load(trained[0] / "best")


@pytest.fixture
def copy(trained, tmp_path):
    return shutil.copytree(trained[0] / "best", tmp_path / "model")


def test_it_is_a_kind_by_its_name(scorer):
    assert kinds()["scorer"].load is load
    assert scorer.name == "scorer@1"


def test_it_decides_in_a_state_as_it_does_in_a_replay(scorer):
    whole = small(5)
    decision = next(itertools.islice(decisions(whole.cluster, whole.workload, scorer), 120, None))
    before = decision.state.arrays.nodes.copy()
    assert not list(scorer.decide(decision.state))  # all that could start has started
    assert (decision.state.arrays.nodes == before).all()
    assert len(forecast(decision.state, scorer)) == len(decision.state.waiting)


def test_a_replay_is_the_same_every_time(scorer):
    whole = small(6)
    assert len({run(whole.cluster, whole.workload, scorer).digest for _ in range(2)}) == 1


def test_it_does_not_doubt_a_queue_like_those_it_learned_from(scorer):
    state = crowded(scorer)
    assert wrong_size(scorer.card, state) is None
    assert strange_jobs(scorer._outside(state), INPUTS) is None
    assert scorer.drift(state) < 0.25


def test_it_doubts_a_cluster_that_changed_its_size_overnight(scorer):
    whole = small(8)
    shrunk = whole.cluster.with_events([NodeEvent(0.0, name, "drain") for name in whole.cluster.names[:3]])
    state = next(iter(decisions(shrunk, whole.workload, scorer))).state
    assert "1 nodes are open" in scorer.doubt(state)
    grown = next(iter(decisions(Cluster.from_spec("65x8"), whole.workload, scorer))).state
    assert "65 nodes are open" in scorer.doubt(grown)


def test_it_doubts_jobs_unlike_those_it_learned_from(scorer):
    state = crowded(scorer)
    state.workload = replace(state.workload, limit=state.workload.limit * 1e4, prediction=np.full(300, 1e7))
    assert scorer.drift(state) == 1.0
    assert "unlike those it was trained on" in scorer.doubt(state)


def test_it_doubts_when_its_members_disagree(scorer):
    other = scorer.members.copy()
    for name in ("order.linear", "order.traits"):
        layer(other, name)[1] *= -1.0
    layer(other, "mood.base")[:, -2:] = 0.0
    assert "disagree" in Scorer(other, scorer.card).doubt(crowded(scorer))


@pytest.mark.parametrize(("hours", "alike"), [((1, 1), True), ((1, 100), False), ((1, 1, 1.5), True), ((5,), False)])
def test_it_doubts_that_run_times_tell_two_jobs_apart_as_it_does_of_many(scorer, hours, alike):
    work = Workload.of(np.zeros(len(hours)), np.full(len(hours), 600.0), np.full(len(hours), 32),
                       limit=3600.0 * np.array(hours))
    state = next(iter(decisions(Cluster.from_spec("4x8"), work, scorer))).state
    assert ("run times" in dict(scorer.doubts(state))) == alike


def test_it_gives_reasons_in_an_operators_words(scorer):
    state = crowded(scorer)
    for job in state.waiting[:5]:
        reasons = scorer.reasons(state, int(job))
        assert 1 <= len(reasons) <= 3
        assert all("(queue " in reason and reason.endswith((": earlier", ": later")) for reason in reasons)
    assert scorer.reasons(state, int(state.running[0])) == ()


def test_reasons_name_what_sets_a_job_apart(scorer):
    weights = np.zeros_like(scorer.members)
    layer(weights, "mood.base")[:, 0] = 1.0
    layer(weights, "order.linear")[:, 5, 0] = 1.0  # nothing but the requested limit
    layer(weights, "patience")[:] = np.inf
    state = crowded(scorer)
    limit = state.workload.limit[state.waiting]
    longest = int(state.waiting[limit.argmax()])
    (reason,) = Scorer(weights, scorer.card).reasons(state, longest)
    assert reason.startswith("requested limit")
    assert reason.endswith("later")


@pytest.mark.parametrize("length", [0, 10, -1])
def test_truncated_weights_are_refused(copy, length):
    path = copy / WEIGHTS
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(CheckpointError, match="digest"):
        load(copy)


def test_tampered_weights_are_refused(copy):
    content = bytearray((copy / WEIGHTS).read_bytes())
    content[-1] ^= 1
    (copy / WEIGHTS).write_bytes(content)
    with pytest.raises(CheckpointError, match="digest"):
        load(copy)


@pytest.mark.parametrize(("change", "message"), [
    ({"format": 99}, "newer"), ({"schema_hash": "of other inputs"}, "train it anew")])
def test_a_card_of_another_version_is_refused(copy, change, message):
    card = json.loads((copy / CARD).read_text())
    (copy / CARD).write_text(json.dumps(card | change))
    with pytest.raises(CheckpointError, match=message):
        load(copy)
