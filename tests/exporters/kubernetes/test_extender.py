"""What kube-scheduler asks is understood as it writes it, and nothing else is."""

import json

import kube_objects as make
import pytest

from idlewatt.exporters.kubernetes.extender import parse_question, scores_answer


def body(**changes):
    return json.dumps({"Pod": make.pod("train-0", make.owner("Job", "train"), gpus=4), "Nodes": None,
                       "NodeNames": ["n1", "n2"], **changes}).encode()


def test_a_question_names_the_job_of_its_pod():
    asked = parse_question(body())
    assert (asked.job_id, asked.gpus, asked.cpus, asked.nodes) == ("team/train", 4, 8.0, ("n1", "n2"))


def test_a_pod_without_gpus_is_asked_about_by_its_own_name():
    asked = parse_question(body(Pod=make.pod("web", gpus=0)))
    assert (asked.job_id, asked.gpus) == ("team/web", 0)


@pytest.mark.parametrize("sent", [
    b"", b"null", b"[]", b"{", b'{"NodeNames": ["n1"]}', b'{"Pod": [], "NodeNames": ["n1"]}', b"\xff", b"[" * 100_000,
    body(NodeNames=None), body(NodeNames="n1"), body(NodeNames=["n1"] * 20_001), body(NodeNames=[1])])
def test_what_is_no_question_is_refused_in_words(sent):
    with pytest.raises(ValueError, match=r"no ExtenderArgs|NodeNames is empty|more than"):
        parse_question(sent)


def test_scores_are_written_as_the_scheduler_reads_them():
    assert json.loads(scores_answer({"n1": 10, "n2": 0})) == [{"Host": "n1", "Score": 10}, {"Host": "n2", "Score": 0}]
    assert scores_answer({}) == "[]"
