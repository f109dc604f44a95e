"""What a training leaves: a model with all that it knows on its card, and room for the next one."""

from idlewatt.daemon.learning.models import ModelStore
from idlewatt.daemon.learning.training import SHADOWS, ModelLimit, make_room
from idlewatt.daemon.learning.trials import TRIED, agent_on_trial, trials
from idlewatt.storage.history import History
from idlewatt.storage.ledger import Ledger
from idlewatt.storage.promotions import Decision, Promotion, states


def test_trainings_by_hand_do_not_end_the_trial_of_an_agent_of_their_kind(tmp_path):
    url = f"sqlite:///{tmp_path}/idlewatt.db"
    History.open(url).close()
    with Ledger.open(url) as ledger:
        ledger.decide(Promotion(1.0, "chooser@1", Decision.SHADOW, "nightly", "", {TRIED: 0.0}))
        for number in range(2, 5):
            ledger.decide(Promotion(float(number), f"chooser@{number}", Decision.SHADOW, "operator", ""))
            make_room(ledger, ModelStore(tmp_path), ModelLimit("chooser", 1), "operator", float(number))
        decisions = ledger.decisions()
    assert agent_on_trial(trials(decisions, 5.0), "chooser").name == "chooser@1"
    left = [name for name, last in states(decisions).items() if last.decision is Decision.SHADOW]
    assert left == ["chooser@1", "chooser@3", "chooser@4"]
    assert len(left) == 1 + SHADOWS
