"""Weights that are not whole, not ours or not for this agent are refused, with the reason."""

import hashlib
import json
import os
import struct
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import save as serialize

from idlewatt.daemon.agents.checkpoint import (
    CARD,
    FORMAT,
    WEIGHTS,
    CheckpointError,
    load,
    read_card,
    read_unfinished,
    save,
    verify,
    write_card,
)
from idlewatt.storage.records import ModelCard

SCHEMA = {"inputs": ["free gpus"], "actions": 2}
VALUES = {"q.weight": np.array([[1.0, 2.0]], np.float32), "q.bias": np.zeros(2, np.float32)}


@pytest.fixture
def folder(tmp_path):
    save(tmp_path / "model", ModelCard("a100", "1", 1e9, 7, "0.1.0", "", "", metrics={"u": 0.7}), VALUES, SCHEMA)
    return tmp_path / "model"


def refusal(folder, schema=SCHEMA, like=VALUES):
    with pytest.raises(CheckpointError) as refused:
        load(folder, schema, like=like)
    return str(refused.value)


def rewrite(folder, **changes):
    card = json.loads((folder / CARD).read_text())
    (folder / CARD).write_text(json.dumps(card | changes))


def test_what_was_saved_is_loaded(folder):
    weights, card = load(folder, SCHEMA, like=VALUES)
    assert {name: array.tolist() for name, array in weights.items()} == {
        name: array.tolist() for name, array in VALUES.items()}
    assert (card.seed, card.metrics) == (7, {"u": 0.7})


def test_a_truncated_file_is_refused(folder):
    path = folder / WEIGHTS
    path.write_bytes(path.read_bytes()[:-3])
    assert "digest differs" in refusal(folder)


def test_a_tampered_file_is_refused(folder):
    path = folder / WEIGHTS
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert "digest differs" in refusal(folder)


def test_weights_for_other_inputs_are_refused(folder):
    assert "train it anew" in refusal(folder, schema=SCHEMA | {"actions": 3})


def test_a_card_that_nests_without_end_is_refused(folder):
    (folder / CARD).write_text("[" * 200_000)
    assert f"{CARD}: not JSON" in refusal(folder)


@pytest.mark.parametrize("metadata_text", ["[" * 200_000, "[1]", "nothing"])
def test_an_unfinished_training_that_says_nonsense_is_refused(tmp_path, metadata_text):
    path = tmp_path / "training.safetensors"
    path.write_bytes(serialize({"a": np.zeros(1)}, metadata={"training": metadata_text}))
    with pytest.raises(CheckpointError, match="not an unfinished training"):
        read_unfinished(path, "a plan", "another plan")


def test_a_card_from_a_newer_idlewatt_is_refused(folder):
    rewrite(folder, format=FORMAT + 1, something="new")
    assert "newer idlewatt" in refusal(folder)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"format": 1}', "\x00\xff"])
def test_a_damaged_card_is_refused(folder, content):
    (folder / CARD).write_text(content)
    assert CARD in refusal(folder)


def test_a_card_with_facts_of_the_wrong_kind_is_refused_and_says_which(folder):
    rewrite(folder, seen={"jobs": 3}, trained_s=None)
    assert "seen.jobs" in refusal(folder)
    assert "trained_s" in refusal(folder)


def test_what_is_known_of_weights_may_grow_without_touching_them(folder):
    write_card(folder, replace(read_card(folder / CARD), metrics={"ratio": 0.9}, seen={"gpus": (1.0, 8.0)}))
    assert verify(folder).seen == {"gpus": (1.0, 8.0)}
    assert load(folder, SCHEMA, like=VALUES)[1].metrics == {"ratio": 0.9}
    (folder / WEIGHTS).write_bytes(b"")
    with pytest.raises(CheckpointError, match="digest differs"):
        verify(folder)


def test_missing_files_are_named(folder, tmp_path):
    (folder / WEIGHTS).unlink()
    assert f"{WEIGHTS}: cannot be read: No such file" in refusal(folder)
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_card(tmp_path / CARD)


def test_layers_of_another_size_and_numbers_that_are_none_are_refused(folder):
    assert "other layers" in refusal(folder, like=VALUES | {"q.bias": np.zeros(3, np.float32)})
    save(folder, read_card(folder / CARD), VALUES | {"q.bias": np.array([0, np.nan], np.float32)}, SCHEMA)
    assert "finite" in refusal(folder)


def test_a_file_that_is_no_safetensors_is_refused_even_with_its_digest(folder):
    (folder / WEIGHTS).write_bytes(b"garbage")
    rewrite(folder, weights_digest="1d3e0d0b9c3fe3bd1ae0a28a2c8a4a1a")
    assert "digest differs" in refusal(folder)
    rewrite(folder, weights_digest=hashlib.sha256(b"garbage").hexdigest())
    assert "not a safetensors file" in refusal(folder)


@pytest.mark.parametrize("name", [WEIGHTS, CARD])
@pytest.mark.parametrize(("put", "message"), [
    (lambda path, away: path.symlink_to(away), "a symbolic link"),
    (lambda path, away: os.mkfifo(path), "not a plain file"),
    (lambda path, away: path.symlink_to("/dev/zero"), "a symbolic link"),
    (lambda path, away: path.mkdir(), "not a plain file")], ids=["link", "pipe", "device", "folder"])
def test_what_is_no_plain_file_is_refused_at_once(folder, tmp_path, name, put, message):
    away = tmp_path / "elsewhere"
    (folder / name).rename(away)
    put(folder / name, away)
    with pytest.raises(CheckpointError, match=message):
        verify(folder)


@pytest.mark.parametrize(("factor", "message"), [(0.0, "every weight is zero"), (1e30, "weights up to 2e+30")])
def test_weights_that_no_training_ends_with_are_refused_although_they_are_whole(folder, factor, message):
    absurd = {name: array * np.float32(factor) for name, array in VALUES.items()}
    save(folder, read_card(folder / CARD), absurd, SCHEMA)
    assert message in refusal(folder)
    with pytest.raises(CheckpointError, match="no training ends with"):
        verify(folder)


@pytest.mark.parametrize("layer", [
    {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}, {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [0, 4]},
    {"dtype": "F32", "shape": [0, 2**62], "data_offsets": [0, 0]},
    {"dtype": "F32", "shape": [1] * 100, "data_offsets": [0, 4]}], ids=["bf16", "f8", "endless shape", "100 axes"])
def test_layers_that_numpy_cannot_hold_are_refused_even_with_their_digest(folder, layer):
    header = json.dumps({"q.weight": layer}).encode()
    content = struct.pack("<Q", len(header)) + header + b"\0\0\x80\x3f"[:layer["data_offsets"][1]]
    (folder / WEIGHTS).write_bytes(content)
    rewrite(folder, weights_digest=hashlib.sha256(content).hexdigest())
    assert f"{WEIGHTS}: not a safetensors file of numpy's numbers" in refusal(folder)


@pytest.mark.parametrize("time_s", [float("nan"), float("inf"), -1e18, 1e18])
@pytest.mark.parametrize("name", ["trained_s", "history_from_s", "history_until_s"])
def test_a_card_with_a_time_that_is_none_is_refused(folder, name, time_s):
    rewrite(folder, **{name: time_s})
    assert f"{CARD}: {name} is {time_s}, which is no time; restore it" in refusal(folder)


def test_of_a_card_with_many_faults_the_first_are_told_on_one_line(folder):
    rewrite(folder, metrics={f"\x1b[31m\n{number}": "x" for number in range(10_000)})
    message = refusal(folder)
    assert len(message) < 1000
    assert message.isprintable()
