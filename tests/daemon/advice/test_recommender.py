from dataclasses import dataclass, field, replace

import pytest

from idlewatt.daemon import config
from idlewatt.daemon.advice import recommender as joint
from idlewatt.daemon.advice.recommender import Recommendations, RecommenderKind
from idlewatt.daemon.advice.recommenders import subjects, topics
from idlewatt.daemon.config import ConfigError
from idlewatt.daemon.settings.recommenders import RecommenderSettings, RecommendersSettings
from idlewatt.daemon.view import DaemonView
from idlewatt.exporters.publish import check
from idlewatt.storage.records import Job, JobState, Request


@dataclass(frozen=True)
class Row:
    job_id: str
    submit_s: float = 0.0
    partition: str = "a100"
    nodes: tuple[str, ...] = ("dgx01",)
    snapshot_s: float | None = None


@dataclass
class Toy:
    """Says what it is told to say."""

    answers: list = field(default_factory=list)
    scenes: list = field(default_factory=list)

    def recommend(self, context):
        self.scenes.append(context)
        what = self.answers.pop(0)
        if isinstance(what, Exception):
            raise what
        return what


@pytest.fixture
def toy(rig, monkeypatch):
    """Return a service that has looked once and has a toy to recommend."""
    service, recommender = rig.service(), Toy()
    monkeypatch.setitem(joint.REGISTERED, "toy", RecommenderKind("toy", Row, lambda *_: recommender, {}))
    monkeypatch.setattr(RecommendersSettings, "of", lambda settings, name: RecommenderSettings())
    service._recommenders["toy"] = recommender
    service.jobs()
    return service, recommender


def published(service):
    return DaemonView(service, lambda: service.settings).published()


def test_a_subject_is_called_as_its_file_and_says_what_it_is_about():
    assert set(subjects()) == set(topics())
    for name, subject in subjects().items():
        assert subject.name == name
        about = topics()[name]
        assert about.endswith(".")
        assert about[0].isupper()
        assert about == about.strip()


def test_what_is_said_is_seen_and_published(toy):
    service, recommender = toy
    recommender.answers.append(Recommendations(7.0, (Row("1"), Row("2")), {"fragmentation_ratio": {"a100": 0.25}}))
    service.recommend("toy")
    assert DaemonView(service, lambda: service.settings).recommended("toy") == (
        Row("1", snapshot_s=service.known.snapshot.time_s), Row("2", snapshot_s=service.known.snapshot.time_s))
    facts = published(service)
    assert (facts.recommendation_rows["toy"], facts.recommendation_timestamp_seconds["toy"]) == (2.0, 7.0)
    assert facts.fragmentation_ratio == {"a100": 0.25}


def test_a_subject_is_shown_what_is_known(toy):
    service, recommender = toy
    recommender.answers.append(Recommendations(7.0))
    service.recommend("toy")
    (context,) = recommender.scenes
    assert (context.now_s, context.snapshot) == (service.now(), service.known.snapshot)


def test_nobody_is_asked_about_a_cluster_that_nobody_has_seen(toy):
    service, recommender = toy
    service._learn(snapshot=None)
    service.recommend("toy")
    assert recommender.scenes == []


@pytest.mark.parametrize("fault", [
    ValueError("no sense"), Recommendations(8.0, (Row("9"),), {"no_such_metric": 1.0}),
    Recommendations(8.0, (Row("9"),), {"fragmentation_ratio": {("a100", "more"): 1.0}})])
def test_what_goes_wrong_ends_one_round_of_one_subject(toy, fault):
    service, recommender = toy
    recommender.answers += [Recommendations(7.0, (Row("1"),)), fault, Recommendations(9.0, (Row("3"),))]
    service.recommend("toy")
    with pytest.raises(ValueError, match="."):
        service.recommend("toy")
    assert published(service).recommendation_timestamp_seconds["toy"] == 7.0
    service.recommend("toy")
    assert [row.job_id for row in service.known.recommended["toy"].rows] == ["3"]


def test_only_known_metrics_with_their_labels_pass():
    check({"fragmentation_ratio": {"a100": 0.5}, "pue_ratio": None})
    with pytest.raises(ValueError, match="idlewatt_no_such"):
        check({"no_such": 1.0})


def test_rows_of_two_schedulers_that_share_id_and_partition_are_not_told_apart_by_labels():
    rows = [Row("1"), Row("2"), Row("1", 5.0), Row("1", partition="v100"), Row("2", nodes=("dgx02",))]
    jobs = [job("1"), job("2"), job("1", 5.0), job("1", partition="v100")]
    assert joint.told_apart(rows, jobs) == [Row("2"), Row("1", partition="v100"), Row("2", nodes=("dgx02",))]


def test_a_job_of_another_scheduler_without_a_row_makes_labels_ambiguous_too():
    jobs = [job("1"), job("1", 5.0), job("2"), job("2", 5.0, partition="v100")]
    assert joint.told_apart([Row("1"), Row("2")], jobs) == [Row("2")]


def test_a_job_that_was_queued_again_is_told_apart_from_its_run_that_ended():
    jobs = [job("1", state=JobState.PREEMPTED), job("1", 5.0, state=JobState.PENDING)]
    assert joint.told_apart([Row("1", 5.0)], jobs) == [Row("1", 5.0)]


def job(job_id, submit_s=0.0, partition="a100", state=JobState.RUNNING):
    return Job(job_id, submit_s, state, partition, Request(1))


def test_a_subject_that_is_not_wanted_is_not_considered(rig):
    service = rig.service(recommenders="{elastic: {enabled: false}}")
    assert "elastic" not in service._recommenders
    assert "elastic" not in service.beat.health()


def test_what_was_said_goes_when_a_reload_leaves_the_subject_out(rig):
    service = rig.service()
    service._learn(recommended={"elastic": Recommendations(7.0)})
    service.reload(lambda: config.parse(rig.text(recommenders="{elastic: {enabled: false}}")))
    assert service.known.recommended == {}


def test_a_subject_that_cannot_be_is_named_and_the_old_configuration_goes_on(rig, monkeypatch):
    def refuse(*_):
        raise ValueError("no such thing")

    service = rig.service()
    broken = replace(subjects()["elastic"], open=refuse)
    monkeypatch.setitem(joint.REGISTERED, "elastic", broken)
    with pytest.raises(ConfigError, match=r"recommenders\.elastic: no such thing"):
        service.reload(lambda: config.parse(rig.text(recommenders="{elastic: {settle: 1m}}")))
    assert "elastic" in service._recommenders
