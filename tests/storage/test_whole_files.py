"""Files that are written whole or not at all: what a power cut, a full disk, a kill and two writers leave of them."""

import fcntl
import os
import signal
import threading

import pytest

from idlewatt.storage.whole_files import remove_abandoned, sync, write


@pytest.fixture
def order(monkeypatch):
    """What was brought to the disk, and what took its name, in this order; by paths as they were at that moment."""
    seen, fsync, replace = [], os.fsync, os.replace

    def synced(descriptor):
        seen.append(("fsync", os.readlink(f"/proc/self/fd/{descriptor}"), os.fstat(descriptor).st_size))
        fsync(descriptor)

    def named(source, target):
        seen.append(("rename", os.fspath(target)))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", named)
    return seen


def test_a_file_is_on_the_disk_before_it_takes_its_name_and_its_name_before_it_counts(tmp_path, order):
    write(tmp_path / "note.json", b"what was noted")
    (drafted, path, size), named, (folder, place, _) = order
    assert (drafted, os.path.dirname(path), size) == ("fsync", str(tmp_path), len(b"what was noted"))
    assert named == ("rename", str(tmp_path / "note.json"))
    assert (folder, place) == ("fsync", str(tmp_path))
    assert [one.name for one in tmp_path.iterdir()] == ["note.json"]


def test_what_replaces_a_longer_file_is_no_longer_than_it_should_be(tmp_path):
    (tmp_path / f".note.json.{os.getpid()}").write_bytes(b"what a killed process of the same number left here")
    write(tmp_path / "note.json", b"long before")
    write(tmp_path / "note.json", b"short")
    assert (tmp_path / "note.json").read_bytes() == b"short"


def test_what_cannot_be_written_leaves_no_draft_and_names_its_path(tmp_path, monkeypatch):
    """As a full disk does it, which would stay full of drafts: nothing says where in the error of a write."""
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: .*night\.json"):
        write(tmp_path / "night.json", b"what came of it")
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_that_cannot_synchronise_folders_takes_files_all_the_same(tmp_path, monkeypatch):
    def unknown(descriptor):
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "fsync", unknown)
    sync(tmp_path)


def test_a_draft_of_a_killed_process_is_removed_and_one_that_is_being_written_stays(tmp_path):
    """One real process, before and after its SIGKILL."""
    begun, told = os.pipe()
    child = os.fork()
    if child == 0:
        def hang(descriptor):
            os.write(told, b"x")
            signal.pause()

        os.fsync = hang
        try:
            write(tmp_path / "card.json", b"half of it")
        finally:
            os._exit(1)
    assert os.read(begun, 1) == b"x"
    draft = tmp_path / f".card.json.{child}"
    assert not remove_abandoned(draft)
    assert draft.read_bytes() == b"half of it"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert draft.exists(), "as every kill leaves it"
    assert remove_abandoned(draft)
    assert list(tmp_path.iterdir()) == []


def test_a_draft_that_is_removed_before_its_writer_has_locked_it_is_made_anew(tmp_path, monkeypatch):
    draft, flock, removed = tmp_path / f".note.json.{os.getpid()}", fcntl.flock, []

    def removing(descriptor, operation):
        if not removed:
            removed.append(True)
            monkeypatch.setattr(fcntl, "flock", flock)
            assert remove_abandoned(draft)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", removing)
    write(tmp_path / "note.json", b"noted")
    assert removed
    assert [one.name for one in tmp_path.iterdir()] == ["note.json"]


def test_two_threads_that_write_one_file_leave_one_of_two_whole_contents(tmp_path):
    contents, failed = [bytes([letter]) * 200_000 for letter in b"ab"], []

    def writing(content):
        try:
            for _ in range(5):
                write(tmp_path / "note.json", content)
        except OSError as error:
            failed.append(error)

    threads = [threading.Thread(target=writing, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert (tmp_path / "note.json").read_bytes() in contents
    assert [one.name for one in tmp_path.iterdir()] == ["note.json"]


@pytest.mark.parametrize("made", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.mkdir(),
                                  lambda path: None])
def test_what_is_no_draft_of_a_file_stays(tmp_path, made):
    made(tmp_path / ".note.json.1")
    found = list(tmp_path.iterdir())
    remove_abandoned(tmp_path / ".note.json.1")
    assert list(tmp_path.iterdir()) == found
