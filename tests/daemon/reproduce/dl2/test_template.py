"""The parts of DL2's report that take hours of training, from made-up results."""

import numpy as np
import pytest

from idlewatt.daemon.reproduce.dl2 import claims, literal
from idlewatt.daemon.reproduce.dl2.agent import PUBLISHED
from idlewatt.daemon.reproduce.dl2.trial import BOUND, FITTED, OURS, PLAIN, Contest
from idlewatt.daemon.reproduce.report import rendered

TEN = np.linspace(0.9, 1.1, 10)


def contest(plans=4):
    names = (*claims.EXPECTED, *claims.HEURISTICS, *claims.PAPER, FITTED, PLAIN, "random-feasible", BOUND)
    jct = {name: (6.0 + number) * TEN for number, name in enumerate(dict.fromkeys(names))} | {OURS: 5.0 * TEN}
    return Contest(8, jct, measured=False, plans=plans)


def study():
    jct = {literal.WHOLE: 6.0, "without actor-critic": 7.0, "without job-aware exploration": 6.0}
    outcomes = [literal.VariantResult(variant, [(0, 8.0), (500, 7.0 if variant.name == literal.WHOLE else 9.0)],
                                      jct.get(variant.name, 6.5) * TEN, 12.4) for variant in literal.VARIANTS]
    lessons = [literal.ImitationResult("DRF", 10.0 * TEN, 9.0 * TEN, 3.2)]
    return literal.AblationStudy(lessons, outcomes, 6.7 * TEN, PUBLISHED)


@pytest.fixture(scope="module")
def text():
    text, drawn = rendered("dl2/report.md.j2", {**claims.facts([contest()]), "own": study()})
    assert [plot.title for place in drawn for plot in place] == ["Mean completion time on validation traces, slots"]
    return text


def test_the_report_lists_paper_and_ours_and_every_policy_once_best_first(text):
    rows = text.split("## At most 8 workers: mean completion time, slots")[1].split("##")[0].splitlines()[4:]
    assert rows[2].startswith("| ours | 5.000 | - | 5.724 | - |")
    assert "| DRF | 6.000 | 10.03 | 10.246 | +16.7% (+16.7% to +16.7%) |" in text
    assert "Effect of the true speeds: Against ours (fitted) (" in text
    assert "Effect of looking ahead (4 plans a slot): Against ours, without looking ahead (" in text


def test_ablations_are_divided_by_significantly_longer_completion_times(text):
    assert ("Jobs take longer, as in the paper: without actor-critic (+16.7%), without replay memory (+8.3%). Not "
            "longer, or indistinguishable: without job-aware exploration (+0.0%).") in text
    assert "while one fits, takes 6.700 slots; below it by a 95 % interval: as in " in text
    assert "improves on its initial weights: as in the paper; the other variants are best before it." in text
    assert "| as in the paper | 8.000 | 7.000 | 6.000 | - | - | 12 s |" in text
    assert "| without actor-critic | 8.000 | 8.000 | 7.000 | +16.7% (+16.7% to +16.7%) | +21.1% | 12 s |" in text
    assert "| DRF | 10.000 | 9.000 | -10.0% | 3 s |" in text


def test_a_paragraph_is_one_line_and_nothing_of_the_template_is_left(text):
    blocks = text.strip().split("\n\n")
    assert not [block for block in blocks if "\n" in block and not block.startswith(("|", "#"))]
    assert "{" not in text
    assert "  " not in text
