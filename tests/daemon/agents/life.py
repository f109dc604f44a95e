"""The life of any agent: trained and judged, listened to, promoted by an operator, advising, abstaining, demoted."""

from click.testing import CliRunner

from idlewatt.daemon.advice.advisor import AdviceInputs, Advisor
from idlewatt.daemon.advice.inference import ServedModel
from idlewatt.daemon.advice.model_roles import wanted
from idlewatt.daemon.agents.histories import split
from idlewatt.daemon.cli import main
from idlewatt.daemon.learning.models import ModelStore, speeds_of
from idlewatt.daemon.learning.training import TrainingDirectory, TrainingJob, TrainingRun, examined
from idlewatt.daemon.settings.advice import AdviceSettings
from idlewatt.storage.history import History
from idlewatt.storage.promotions import states

FALLBACK = "fifo+best-fit+easy"


class Life:
    """One agent's, in a folder with a database and a configuration that names it."""

    def __init__(self, folder, kind):
        self.kind, self.url = kind, f"sqlite:///{folder}/idlewatt.db"
        self.config = folder / "idlewatt.yml"
        self.config.write_text(f"storage: {{url: '{self.url}'}}\n")
        History.open(self.url).close()
        self.store = ModelStore(folder / "models")
        self.name = ""

    def train(self, material, incumbent, steps):
        """Train on a history for so many steps, keep the model, and judge it on its last days."""
        order, parts = TrainingJob(self.kind, material.source, 60.0, incumbent=incumbent, steps=steps), split(material)
        directory = TrainingDirectory(self.store, self.kind)
        directory.begin(order)
        training_run = TrainingRun(order, parts, directory)
        for _ in training_run:
            pass
        model = training_run.keep(self.store, 1.8e9)
        self.name = model.name
        return examined(self.store, model, parts.test, incumbent)

    def run(self, *arguments):
        done = CliRunner().invoke(main, [arguments[0], "--config.file", str(self.config), *arguments[1:]])
        assert done.exit_code == 0, done.output
        return done.output

    def promote(self):
        """Make it active as an operator does who has no proof."""
        refused = CliRunner().invoke(main, ["promote", "--config.file", str(self.config), self.name])
        assert refused.exit_code == 0 or "Say --reason" in refused.output
        return self.run("promote", self.name, "--reason", "watched for a week")

    def advise(self, snapshot, speeds=None):
        """Return a round of live advice by whom the decisions name, by the speeds that it learned with or others."""
        with History.read_only(self.url) as reader:
            in_force = states(reader.decisions())
        served = [ServedModel(name, leads, self.store.load(name),
                              speeds=speeds or speeds_of(self.store.find(name).folder))
                  for name, leads in wanted(in_force).items()]
        settings = AdviceSettings(policy=FALLBACK, shadow=(), draws=2)
        return Advisor(settings, AdviceInputs(served, FALLBACK)).advise(snapshot, snapshot.time_s)
