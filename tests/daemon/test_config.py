import re
from pathlib import Path

import pytest

from idlewatt.daemon import config, opening
from idlewatt.daemon.agents.kinds import Objective
from idlewatt.daemon.config import ConfigError, Settings
from idlewatt.exporters.source import kinds
from idlewatt.storage.history import BACKLOG_BYTES
from idlewatt.storage.retention import Retention

MINIMAL = "sources: [{kind: dcgm, targets: ['dgx:9400']}]\n"


def test_the_sample_says_every_default():
    settings = config.parse(config.sample(), "sample")
    assert settings.model_copy(update={"sources": ()}) == Settings()


def keys(model):
    """Return every key that a model knows, its parts' keys too."""
    found = set()
    for name, field in model.model_fields.items():
        found.add(name)
        if hasattr(field.annotation, "model_fields"):
            found |= keys(field.annotation)
    return found


def test_the_sample_names_every_key():
    sample = config.sample()
    known = keys(Settings) | {key for kind in kinds().values() for key in keys(kind)}
    # Keys of parts that the sample shows in their place, or that only some sites need.
    elsewhere = {"http", "password", "credentials"}
    missing = {key for key in known - elsewhere if not re.search(rf"\b{key}\b", sample)}
    assert missing == set()


def test_the_sample_names_every_kind_of_source():
    assert {kind for kind in kinds() if f"kind: {kind}" not in config.sample()} == set()


def test_the_objective_of_the_configuration_is_that_of_agents():
    assert Objective.of(Settings().training.objective) == Objective()
    other = config.parse("training: {objective: {jct_mean: 0, energy_wasted: 2, longest_wait: 1d}}").training.objective
    assert Objective.of(other) == Objective(0.0, 0.2, 0.1, 2.0, 86400.0)


def test_history_is_kept_for_as_long_by_default_whoever_says_so():
    assert opening.kept_for(Settings()) == Retention()
    assert Settings().storage.backlog_bytes == BACKLOG_BYTES


def test_an_empty_file_is_all_defaults():
    assert config.parse("") == Settings()


def test_every_fault_is_told_at_once_with_its_path_and_line():
    text = ("clutser: typo\n"
            "cycles:\n"
            "  scrape: fast\n"
            "  jobs: -1s\n"
            "sources:\n"
            "  - kind: dcgm\n"
            "    timeout: {}\n"
            "    targest: []\n"
            "  - kind: dgcm\n")
    with pytest.raises(ConfigError) as failure:
        config.parse(text, "site.yml")
    lines = str(failure.value).splitlines()
    assert len(lines) == 6
    assert "site.yml:1: clutser: unknown key" in lines
    assert any(line.startswith("site.yml:3: cycles.scrape: 'fast' is not a duration") for line in lines)
    assert any(line.startswith("site.yml:4: cycles.jobs:") for line in lines)
    assert any(line.startswith("site.yml:7: sources[0].timeout:") for line in lines)
    assert "site.yml:8: sources[0].targest: unknown key" in lines
    assert any(line.startswith("site.yml:9: sources[1]: kind 'dgcm' is none of amd, amd_smi, cgroup, dcgm, ")
               for line in lines)


def test_a_key_that_stands_twice_is_an_error():
    with pytest.raises(ConfigError, match="'cluster' stands here twice"):
        config.parse("cluster: a\ncluster: b\n")


@pytest.mark.parametrize(("text", "message"), [
    ("[1, 2]", "a mapping is expected at the top, not list"),
    ("cluster: [", "not YAML"),
    ("!!python/object/apply:os.system [id]", "not YAML"),
    ("cluster: !!timestamp x", "not YAML: a value is not of the kind that the tag before it names"),
    ("cluster: !!bool x", "not YAML: a value is not of the kind that the tag before it names"),
    ("advice: {policy: sjf-orakel}", "'sjf-orakel' is no rule"),
    ("advice: {policy: sjf-oracle}", "looks at true run times"),
    ("sources: [{kind: dcgm}, {kind: dcgm}]", "two sources are called 'dcgm'"),
    ("training: {at: 12:30}", 'written in quotation marks: "03:00"'),
    ("training: {at: '25:00'}", "training.at"),
    ("training: {at: '03:00Z'}", "training.at: a time of day is the machine's local time here, written without an"),
    ("training: {agent: gambler}", "there is no agent 'gambler'; there are dl2, gist_mdrl, maifs, scorer, topdrl"),
    ("training: {objective: {jct_mean: 0, slowdown_mean: 0, wait_p99: 0}}", "at least one weight must be more than 0"),
    ("training: {objective: {jct_mean: -1}}", "greater than or equal to 0"),
    ("storage: {retention: {jobs: 0s}}", "storage.retention.jobs: Input should be greater than 0"),
])
def test_what_cannot_be_meant_is_said_clearly(text, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        config.parse(text)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ConfigError, match="nowhere.yml: cannot be read"):
        config.load(tmp_path / "nowhere.yml")
    (tmp_path / "binary.yml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"binary.yml: cannot be read"):
        config.load(tmp_path / "binary.yml")


def test_sources_become_typed_settings():
    (source,) = config.parse(MINIMAL).sources
    assert source.targets == ("dgx:9400",)
    assert isinstance(source, kinds()["dcgm"])


@pytest.mark.parametrize(("text", "seconds"), [("250ms", 0.25), ("1h30m", 5400.0), ("2w", 1209600.0), ("15", None)])
def test_durations_are_read_as_people_write_them(text, seconds):
    if seconds is None:
        assert config.parse("cycles: {scrape: 15}").cycles.scrape == 15.0
    else:
        assert config.parse(f"cycles: {{scrape: {text}}}").cycles.scrape == seconds


def test_the_sample_is_what_check_config_prints():
    assert (Path(config.__file__).parent / "config.sample.yml").read_text() == config.sample()


@pytest.mark.parametrize(("storage", "folder"), [
    ("{url: 'sqlite:////srv/x/idle.db?timeout=1'}", "/srv/x/idle.db.spool"),
    ("{url: /srv/x/idle.db}", "/srv/x/idle.db.spool"),
    ("{url: 'sqlite:////srv/x/idle.db', state: /scratch}", "/scratch/idle.db.spool"),
    ("{url: 'postgresql://me:secret@db/idlewatt'}", "/var/lib/idlewatt/92462a4d.spool"),
    ("{url: 'postgresql://me:other@db/idlewatt'}", "/var/lib/idlewatt/92462a4d.spool"),
    ("{url: 'postgresql://me@db/idlewatt', state: /scratch}", "/scratch/92462a4d.spool"),
])
def test_facts_wait_beside_the_database_or_in_the_state_folder(storage, folder, monkeypatch):
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    assert str(config.parse(f"storage: {storage}\n{MINIMAL}").storage.spool_folder) == folder


def test_the_state_folder_is_the_one_that_systemd_made(monkeypatch):
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/private/idlewatt:/other")
    settings = config.parse(f"storage: {{url: 'postgresql://db/idlewatt'}}\n{MINIMAL}")
    assert settings.storage.spool_folder.parent == Path("/var/lib/private/idlewatt")
    assert settings.storage.models_folder == Path("/var/lib/idlewatt/models")


def test_a_configuration_nested_too_deep_is_refused_with_its_line():
    with pytest.raises(config.ConfigError, match=":2: nested more than 100 deep"):
        config.parse("cluster: x\nsources: " + 500 * "[" + 500 * "]")


def test_a_configuration_without_bottom_is_refused_with_its_line():
    # libyaml from 0.2.6 on ends at 1,000 levels by itself, before it tells of the first.
    refused = r":2: nested more than 100 deep|exceeded maximum nesting depth\s.*line 2"
    with pytest.raises(config.ConfigError, match=refused):
        config.parse("cluster: x\nsources: " + 200_000 * "[")


def test_a_key_of_an_older_version_is_named_with_its_new_name():
    with pytest.raises(ConfigError, match="site.yml:1: counsel: unknown key; since 0.2 it is recommenders"):
        config.parse("counsel: {}\n", "site.yml")
