"""The store of trained models: what is whole is listed and loaded, what is not is listed with the reason."""

import fcntl
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from idlewatt.daemon import config
from idlewatt.daemon.agents import kinds
from idlewatt.daemon.agents.checkpoint import CARD, FORMAT, WEIGHTS, read_card, save, write_card
from idlewatt.daemon.learning.models import SPEEDS, ModelError, ModelStore, speeds_of
from idlewatt.daemon.replay.site_speeds import SiteSpeeds, SpeedCell, SpeedGroup
from idlewatt.daemon.replay.speed_file import text
from idlewatt.storage.records import ModelCard

CARD_1 = ModelCard("site", "", 1_795_219_200.0, 7, "0.1.0", "", "", kind="plain")


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store that knows the kind ``plain``, whose models are their cards."""
    plain = kinds.AgentKind("plain", lambda config: iter(()), lambda folder: read_card(folder / CARD))
    monkeypatch.setattr(kinds, "_KINDS", {"plain": plain})
    return ModelStore(tmp_path / "models")


def kept(store, tmp_path, trained_s=CARD_1.trained_s, **changes):
    card = replace(CARD_1, trained_s=trained_s, **changes)
    save(tmp_path / "best", card, {"weights": np.ones(3, np.float32)}, {})
    return store.keep(tmp_path / "best", read_card(tmp_path / "best" / CARD))


def test_a_kept_model_is_named_by_its_kind_and_time_and_can_be_loaded(store, tmp_path):
    model = kept(store, tmp_path)
    assert model.name == "plain@20261121-000000" == model.card.model
    assert store.models() == (model,)
    assert store.load(model.name).version == "20261121-000000"


def test_two_models_of_one_second_are_two(store, tmp_path):
    assert kept(store, tmp_path).name != kept(store, tmp_path).name
    assert len(store.models()) == 2


def test_a_kind_alone_means_its_newest_whole_model(store, tmp_path):
    older, newer = kept(store, tmp_path), kept(store, tmp_path, 1_795_219_260.0)
    assert store.find("plain") == newer
    (newer.folder / WEIGHTS).write_bytes(b"")
    assert store.find("plain") == older


@pytest.mark.parametrize("name", ["plain@1999", "plain", "", "@", "../plain@1", "plain@../plain", "plain@.", "plain@/"])
def test_what_is_not_there_is_said_and_no_name_leads_out_of_the_folder(store, tmp_path, name):
    (tmp_path / "models" / "plain").mkdir(parents=True)
    with pytest.raises(ModelError, match="there is no model"):
        store.find(name)


def damage(model, how):
    card = json.loads((model.folder / CARD).read_text())
    if how == "truncated weights":
        (model.folder / WEIGHTS).write_bytes((model.folder / WEIGHTS).read_bytes()[:-1])
    elif how == "no weights":
        (model.folder / WEIGHTS).unlink()
    elif how == "no card":
        (model.folder / CARD).unlink()
    elif how == "bottomless card":
        (model.folder / CARD).write_text("[" * 200_000)
    elif how == "newer card":
        (model.folder / CARD).write_text(json.dumps(card | {"format": FORMAT + 1}))
    elif how == "unknown kind":
        (model.folder / CARD).write_text(json.dumps(card | {"kind": "oracle", "version": model.folder.name}))
        shutil.move(model.folder.parent, model.folder.parent.with_name("oracle"))
    else:
        (model.folder / CARD).write_text(json.dumps(card | {"version": "another"}))


@pytest.mark.parametrize(("how", "why"), [
    ("truncated weights", "digest differs"), ("no weights", "cannot be read"), ("no card", "cannot be read"),
    ("bottomless card", "not JSON"), ("newer card", "newer idlewatt"),
    ("unknown kind", "no kind of agent is called 'oracle'"), ("other card", "the card of plain@another")])
def test_a_damaged_model_is_listed_with_the_reason_and_never_loaded(store, tmp_path, how, why):
    whole, damaged = kept(store, tmp_path, 1_795_219_260.0), kept(store, tmp_path)
    if how == "unknown kind":
        whole = None
        for model in store.models()[:1]:
            shutil.rmtree(model.folder)
    damage(damaged, how)
    listed = {model.name: model for model in store.models()}
    found = next(model for model in listed.values() if model.fault)
    assert why in found.fault
    with pytest.raises(ModelError, match=f"{found.name} must not be used: "):
        store.load(found.name)
    assert whole is None or not listed[whole.name].fault


@pytest.mark.parametrize("change", [{"history_until_s": 1e9 - 86400.0}, {"history_until_s": None},
                                    {"history_from_s": 9.9e8}], ids=lambda change: "".join(change))
def test_a_card_whose_history_was_changed_by_hand_is_refused(store, tmp_path, change):
    model = kept(store, tmp_path, history_from_s=9e8, history_until_s=1e9)
    assert store.load(model.name).history_until_s == 1e9
    card = json.loads((model.folder / CARD).read_text())
    (model.folder / CARD).write_text(json.dumps(card | change))
    with pytest.raises(ModelError, match=r"card\.json: history_from_s and history_until_s are \[.*\], and the weights "
                                         r"were trained on \[900000000.0, 1000000000.0\]: the card was changed after "
                                         r"the training; restore it together with weights.safetensors"):
        store.load(model.name)


def test_what_is_learned_of_a_model_later_may_be_written_on_its_card(store, tmp_path):
    model = kept(store, tmp_path, history_from_s=9e8, history_until_s=1_000_000_000)
    write_card(model.folder, replace(model.card, metrics={"earned": 1.0}))
    assert store.load(model.name).metrics == {"earned": 1.0}


def test_a_model_of_an_older_version_whose_weights_tell_no_history_is_used_as_before(store, tmp_path):
    model = kept(store, tmp_path)
    save(model.folder, replace(model.card, history_until_s=1e9), {"weights": np.ones(3, np.float32)}, {})
    assert store.load(model.name).history_until_s == 1e9


def test_a_model_that_its_kind_refuses_is_an_error_with_its_name(store, tmp_path):
    model = kept(store, tmp_path)
    del kinds._KINDS["plain"]
    with pytest.raises(ModelError, match="'plain'"):
        store.load(model.name)


def test_whatever_loading_a_model_raises_costs_that_model_alone_and_is_said(store, tmp_path, monkeypatch):
    def torn(folder):
        raise KeyError("layer 3")

    model = kept(store, tmp_path)
    monkeypatch.setitem(kinds._KINDS, "plain", replace(kinds._KINDS["plain"], load=torn))
    with pytest.raises(ModelError, match=r"must not be used: .*it cannot be loaded \(KeyError: 'layer 3'\); train it"):
        store.load(model.name)


@pytest.mark.parametrize("speeds", ["groups: 3", "groups: !!timestamp x", "groups: [!!bool x]", "\0"])
def test_damaged_speeds_are_an_error_of_the_model(store, tmp_path, speeds):
    model = kept(store, tmp_path)
    (model.folder / SPEEDS).write_text(speeds)
    with pytest.raises(ModelError, match="speeds.yaml: "):
        speeds_of(model.folder)
    with pytest.raises(ModelError, match="must not be used: .*speeds.yaml: "):
        store.load(model.name)


def test_what_cannot_be_taken_in_leaves_nothing_behind_that_fills_the_disk(store, tmp_path, monkeypatch):
    def full(folder, card):
        raise OSError(28, "No space left on device", str(folder))

    monkeypatch.setattr("idlewatt.daemon.learning.models.seal", full)
    with pytest.raises(OSError, match="No space left"):
        kept(store, tmp_path)
    assert list((store.folder / "plain").iterdir()) == []


def test_old_models_make_room_but_for_those_that_are_spared(store, tmp_path):
    made = [kept(store, tmp_path, CARD_1.trained_s + 60 * number).name for number in range(5)]
    assert store.prune(2, {made[0]}) == (made[2], made[1])
    assert [model.name for model in store.models()] == [made[4], made[3], made[0]]


@pytest.mark.parametrize("link", ["elsewhere", "plain/20990101-000000"])
def test_models_behind_a_link_make_no_room_for_they_are_spared_by_other_names(store, tmp_path, link):
    active, newest = kept(store, tmp_path), kept(store, tmp_path, CARD_1.trained_s + 60)
    (store.folder / link).symlink_to(store.folder / "plain" if link == "elsewhere" else active.folder)
    assert store.prune(0, {active.name}) == (newest.name,)
    assert store.find(active.name) == active


def test_an_interrupted_draft_is_no_model(store, tmp_path):
    kept(store, tmp_path)
    shutil.copytree(store.models()[0].folder, tmp_path / "models" / "plain" / ".4711")
    store.training_directory("plain").mkdir(parents=True)
    assert len(store.models()) == 1


def test_a_model_is_on_the_disk_before_it_has_its_name(store, tmp_path, monkeypatch):
    synced, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: fsync(descriptor) or synced.append(
        Path(os.readlink(f"/proc/self/fd/{descriptor}"))))
    model = kept(store, tmp_path)
    draft, kind = store.folder / "plain" / f".{os.getpid()}", model.folder.parent
    last = max(number for number, path in enumerate(synced) if draft in (path, path.parent))
    assert {draft, draft / WEIGHTS, draft / CARD} <= set(synced[:last + 1])
    assert {kind, store.folder} <= set(synced[last:])


def test_drafts_that_killed_processes_left_are_removed_and_told_and_nothing_else_is(store, tmp_path):
    model, training = kept(store, tmp_path), store.training_directory("plain")
    training.mkdir(parents=True)
    spared = [model.folder / CARD, training / "order.json", training / ".of_mine.json", store.folder / "plain/.mine"]
    spared[1].write_text("{}")
    spared[2].write_text("{}")
    spared[3].mkdir()
    shutil.copytree(model.folder, store.folder / "plain/.4711")
    shutil.copytree(model.folder, training / "course/.best.4711")
    left = [model.folder / f".{CARD}.4711", training.parent / ".trials.json.4711"]
    for path in left:
        path.write_bytes(b"half")
    assert store.remove_drafts() == "4 drafts that ended processes had left among the models were removed"
    assert not any(path.exists() for path in left)
    assert not list(store.folder.rglob(".*4711"))
    assert all(path.exists() for path in spared)
    assert store.remove_drafts() == ""
    assert store.find(model.name) == model


def test_a_file_that_another_process_is_writing_is_no_left_draft(store, tmp_path):
    model = kept(store, tmp_path)
    draft = model.folder / f".{CARD}.4711"
    with draft.open("w") as file:  # of a daemon in another container: its number says nothing here
        fcntl.flock(file, fcntl.LOCK_EX)
        assert store.remove_drafts() == ""
        assert draft.exists()
    assert store.remove_drafts() == "1 draft that an ended process had left among the models was removed"
    assert not draft.exists()


def test_a_store_that_is_not_there_yet_is_empty(store):
    assert store.models() == ()
    assert store.prune(1) == ()


@pytest.mark.parametrize(("storage", "folder"), [
    ("{url: 'sqlite:////data/site.db'}", "/data/models"), ("{url: 'sqlite:///here/site.db?timeout=3'}", "here/models"),
    ("{url: /data/site.db}", "/data/models"), ("{url: 'postgresql:///idlewatt'}", "/var/lib/idlewatt/models"),
    ("{url: 'postgresql://db/idlewatt'}", "/var/lib/idlewatt/models"), ("{models: /srv/models}", "/srv/models")])
def test_models_lie_beside_the_database_unless_the_configuration_says_where(storage, folder):
    assert str(config.parse(f"storage: {storage}").storage.models_folder) == folder


def test_a_model_that_was_trained_with_speeds_is_not_used_without_them(store, tmp_path):
    speeds = SiteSpeeds("site", (SpeedGroup("ann", "x", 9, spread={"leaf": SpeedCell(0.8, 0.7, 0.9, "measured", 9)}),))
    (tmp_path / "best").mkdir()
    (tmp_path / "best" / SPEEDS).write_text(text(speeds))
    model = kept(store, tmp_path, speeds=speeds.identity)
    assert store.load(model.name).speeds == speeds.identity
    assert speeds_of(model.folder).table.spread[1, 2] == 0.8
    (model.folder / SPEEDS).write_text(text(speeds).replace("0.8", "0.75"))
    with pytest.raises(ModelError, match=r"it was trained with speeds \(site .*\), and .*speeds.yaml holds site "):
        store.load(model.name)
    (model.folder / SPEEDS).write_text("groups: 3")
    with pytest.raises(ModelError, match=r"speeds.yaml: groups: input should be"):
        store.load(model.name)
    (model.folder / SPEEDS).unlink()
    with pytest.raises(ModelError, match="speeds.yaml holds none: restore the file, or train anew"):
        store.load(model.name)
