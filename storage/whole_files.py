"""Files that are written whole or not at all, and that a power cut leaves whole.

The content goes to a draft beside the file, is brought to the disk, and takes the file's name. The writer locks its
draft (``flock``), so that a draft whose writer was killed is told from one that is being written. Numbers of processes
do not tell: another container or host that shares the folder has numbers of its own.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, and leave no draft; OSError with its path where that fails."""
    try:
        with _locked_draft(path.with_name(f".{path.name}.{os.getpid()}")) as (draft, descriptor):
            try:
                with open(descriptor, "wb", closefd=False) as file:
                    file.write(content)
                os.fsync(descriptor)  # before it takes the name: else a power cut leaves the name with nothing
                draft.replace(path)
            except OSError:
                with suppress(OSError):
                    draft.unlink()  # a full disk must not stay full of drafts
                raise
        sync(path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def sync(path: Path) -> None:
    """Bring the content of a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that knows no such thing for folders
            raise
    finally:
        os.close(descriptor)


def remove_abandoned(draft: Path) -> bool:
    """Remove a draft of a file whose writer has ended, and tell whether it was one; a draft being written stays."""
    try:
        descriptor = os.open(draft, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not (stat.S_ISREG(os.fstat(descriptor).st_mode) and _names(draft, descriptor)):
            return False
        draft.unlink()
    except OSError:  # its writer lives, or its file system has no locks
        return False
    finally:
        os.close(descriptor)
    return True


@contextmanager
def _locked_draft(draft: Path) -> Iterator[tuple[Path, int]]:
    """Yield a draft and its descriptor, locked; another thread that writes the same file is waited for."""
    while True:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            with suppress(OSError):  # a file system without locks: nobody removes drafts there
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _names(draft, descriptor):  # else it was removed, or took its name, before it was locked here
                os.ftruncate(descriptor, 0)
                yield draft, descriptor
                return
        finally:
            os.close(descriptor)


def _names(path: Path, descriptor: int) -> bool:
    """Tell whether a path still names the file that is open."""
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False
