"""Compile the hot path with numba, and keep what was compiled where it can be found again.

numba notices an edit of the file that a function stands in, not of the files it calls into, so the cache folder is
named after a digest of the engine's sources: an upgraded package never runs yesterday's machine code. What compiles
outside the engine, policies and agents, has a folder within, named after its file and the files that this one imports,
so that an edit of one costs no other's compilation, nor the engine's. Without a writable folder machine code is kept in
a private one among temporary files.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import importlib
import logging
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

import llvmlite.binding as llvm
import numba
from numba.core import config as numba_config
from numba.core import event as numba_event

if TYPE_CHECKING:
    from numba.core.typing.templates import Signature

log = logging.getLogger(__name__)

config: Any = numba_config
"""numba fills its settings in at import, where type checkers cannot see them."""


class _LockListener(numba_event.Listener):
    """Listens for the moment when numba's compiler is left."""

    def __init__(self, left: Callable[[], None]) -> None:
        self._left = left

    def on_start(self, event: object) -> None:
        """Do nothing."""

    def on_end(self, event: object) -> None:
        """Report that the compiler was left."""
        self._left()


@contextmanager
def compiler_watched(left: Callable[[], None]) -> Iterator[None]:
    """Call ``left`` whenever numba's compiler is left meanwhile; each function that is compiled or loaded enters it."""
    listener = _LockListener(left)
    numba_event.register("numba:compiler_lock", listener)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        numba_event.unregister("numba:compiler_lock", listener)  # type: ignore[no-untyped-call]


@contextmanager
def _absent(name: str) -> Iterator[None]:
    """Let imports of a module fail meanwhile, as where it is not installed."""
    before = sys.modules.pop(name, None)
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before


# numba looks whether scipy's linear algebra is there, which none of our compiled code calls, and takes no for an
# answer: a daemon is 12 MB smaller without.
with _absent("scipy"):
    importlib.import_module("numba.np.arraymath")

Function = TypeVar("Function", bound=Callable[..., object])

_HERE = Path(__file__).parent
KEPT = 4
"""Folders of machine code beside ours: other versions may be installed, too."""
_UNCLAIMED_S = 86400.0
_IMPORTED = re.compile(r"^from (\.+)([\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
_MARK = "in-use"
_INNER = "inner"
_claims: list[IO[str]] = []
"""Held open as long as the process lives."""


@functools.cache
def cache_folder() -> Path:
    """Return the folder of this version's machine code: $NUMBA_CACHE_DIR, systemd's cache directory or ~/.cache.

    Where that cannot be written it is a private folder among temporary files, which children inherit.
    """
    base = config.CACHE_DIR or os.environ.get("CACHE_DIRECTORY", "").split(":")[0]
    if not base:
        base = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "idlewatt")
    if not _writable(Path(base)):
        private = _private()
        log.warning("machine code cannot be kept in %s, so it is kept in %s; set NUMBA_CACHE_DIR to a folder of yours",
                    base, private)
        base = os.environ["NUMBA_CACHE_DIR"] = str(private)
    return Path(base) / f"compiled-{_digest(_HERE.rglob('*.py'), numba.__version__)}"


def code_digest() -> str:
    """Return a digest of the engine, the policies and what they import: what a replay depends on besides its input."""
    return _digest(_with_imports([*_HERE.rglob("*.py"), *(_HERE.parent / "policies").glob("*.py")]), numba.__version__)


def compiled_mark(policies: Iterable[str]) -> Path:
    """Return the file that is there once decisions by these policies have been compiled, for this machine.

    It lies beside the machine code, and like that goes by the processor, by Python and by when sources were written.
    """
    written = "".join(f"{file} {file.stat().st_mtime_ns}" for file in sorted(_HERE.parent.rglob("*.py")))
    machine = f"{sys.implementation.cache_tag} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"
    named = hashlib.sha256(f"{tuple(policies)} {machine} {written}".encode()).hexdigest()[:16]
    return cache_folder() / f"compiled-for-{named}"


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _private() -> Path:
    """Return a folder among temporary files that nobody else can write to: what lies there is run.

    It is the same at each start, unless somebody else has taken its name.
    """
    folder = Path(tempfile.gettempdir()) / f"idlewatt-{os.getuid()}"
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077:
            return folder
    return Path(tempfile.mkdtemp(prefix="idlewatt-"))


def _folder(function: Callable[..., object]) -> Path:
    """Return the folder of one function's machine code; code typed into a shell has no file to be named after."""
    source = Path(function.__code__.co_filename)
    return cache_folder() / _around(source) if source.is_file() and source.parent != _HERE else cache_folder()


@functools.cache
def _around(source: Path) -> str:
    """Return a digest of a file and of all that it imports from files around it; the engine's own are left out."""
    return _digest(_with_imports([source]))


def _with_imports(sources: Iterable[Path]) -> set[Path]:
    files, left = set(), {source.resolve() for source in sources}
    while left:
        files.add(file := left.pop())
        left |= _imports(file) - files
    return files


@functools.cache
def _imports(source: Path) -> set[Path]:
    """Return the files that a file imports relatively, at its top, outside the engine."""
    files = set()
    for dots, name, imported in _IMPORTED.findall(source.read_text(encoding="utf-8")):
        module = source.parents[len(dots) - 1].joinpath(*name.split("."))
        named = [module / f"{part}.py" for part in re.findall(r"\w+", imported)]
        files |= {file for file in (module.with_suffix(".py"), module / "__init__.py", *named) if file.is_file()}
    return {file for file in files if not file.is_relative_to(_HERE)}


def _digest(sources: Iterable[Path], version: str = "") -> str:
    digest = hashlib.sha256(version.encode())
    for source in sorted(sources):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def claim(folder: Path) -> None:
    """Keep others from removing a folder while this process lives, and remove what is old and nobody's."""
    try:
        _claims.append(_claimed(folder))
        os.utime(folder)
        _make_room(folder)
    except OSError:
        return  # not ours to write: nothing is kept there


def _claimed(folder: Path) -> IO[str]:
    """Return the folder's mark under a shared lock, which goes with the process."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        mark = (folder / _MARK).open("a", encoding="ascii")
        fcntl.flock(mark, fcntl.LOCK_SH)
        if os.fstat(mark.fileno()).st_nlink:
            return mark
        mark.close()  # removed while we waited


def _make_room(ours: Path) -> None:
    others = [folder for folder in ours.parent.glob("compiled-*") if folder != ours]
    for folder in sorted(others, key=lambda folder: folder.stat().st_mtime, reverse=True)[KEPT:]:
        mark = folder / _MARK
        if not mark.exists() and folder.stat().st_mtime > time.time() - _UNCLAIMED_S:
            continue  # of a version that claimed nothing; it may be at work
        with mark.open("a", encoding="ascii") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _cached(function: Callable[..., object], folder: str = "") -> Iterator[None]:
    """Point numba at our folder while it decorates; other users of numba in the process keep theirs."""
    claim(cache_folder())
    before = config.CACHE_DIR
    config.CACHE_DIR = str(_folder(function) / folder)
    try:
        yield
    finally:
        config.CACHE_DIR = before


def compiled(function: Function) -> Function:
    """Compile ``function`` at its first call, cached on disk where that is possible. It cannot make arrays.

    Arrays are never counted in and out, only borrowed (``_nrt=False``): their owner is the Python caller. Counting them
    costs a hundred times the work, because a state has some seventy. For the same reason what compiled code calls is
    always inlined: handing a state on costs more than most of these functions do, and LLVM alone inlines
    too little, at half the speed.
    """
    return cast(Function, _njit(function, _nrt=False, forceinline=True))


def compiled_apart(function: Function) -> Function:
    """Compile ``function`` like :func:`compiled`, but do not inline it: for what is long and seldom called."""
    return cast(Function, _njit(function, _nrt=False))


def compiled_without_lock(function: Function) -> Function:
    """Compile ``function`` like :func:`compiled`; other threads of Python go on while it runs."""
    return cast(Function, _njit(function, _nrt=False, nogil=True))


def compiled_with_arrays(function: Function) -> Function:
    """Compile ``function`` like :func:`compiled`; it may make arrays of its own, at the price of counting them."""
    return cast(Function, _njit(function))


def _njit(function: Function, **options: Any) -> object:
    """Compile ``function`` for Python code that calls it, and apart from that for compiled code that calls it.

    Compiled code needs no wrapper that takes a state's seventy arrays out of Python's objects. Making wrappers of
    functions that only compiled code calls took a third of all compilation. What calls itself has one form.
    """
    from_python = _dispatcher(function, options)
    if function.__name__ not in function.__code__.co_names:
        _FROM_PYTHON.append(from_python)
        from_compiled = _dispatcher(function, options | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}, _INNER)
        from_python.get_call_template = from_compiled.get_call_template
        from_python.get_overload = from_compiled.get_overload
    return from_python


_code_of = attrgetter("library")
"""Returns what numba keeps of LLVM's of one version of a function."""
_FROM_PYTHON: list[Any] = []
"""Forms of functions that only Python calls."""


def forget_inlinable() -> None:
    """Free what could be inlined of functions that only Python calls: megabytes of LLVM's objects.

    Compiled code that calls them inlines their other form.
    """
    for function in _FROM_PYTHON:
        for version in list(function.overloads.values()):  # others may be loaded meanwhile
            _code_of(version)._shared_module = None


def _dispatcher(function: Function, options: dict[str, Any], folder: str = "") -> Any:
    """Let numba compile ``function`` when it is called; of two forms of it one needs a folder of its own."""
    try:
        with _cached(function, folder):
            return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no folder it may write to
        return numba.njit(**options)(function)


def only_version(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the machine code of a compiled function that was called, without the dispatch by argument types.

    Dispatch takes as long as the replay of an hour. A function that was compiled for several types needs it.
    """
    return _only_of(function, len(function.overloads))  # type: ignore[attr-defined]


@functools.cache
def _only_of(function: Callable[..., Any], versions: int) -> Callable[..., Any]:
    """Return the machine code of a function's only version, cached: a look-up hashes all its types."""
    if versions != 1:
        return function
    only: Callable[..., Any] = next(iter(function.overloads.values())).entry_point  # type: ignore[attr-defined]
    return only


class Entrance:
    """Remembers the last arguments of the compiled loop: unchanged ones need no dispatch by their types."""

    def __init__(self) -> None:
        self._loop: Callable[..., float] | None = None
        self._given: tuple[object, object] = (None, None)
        self._calls: object = None

    def enter(self, loop: Callable[..., float], state: object, event_list: object, calls: object,
              until: float) -> float:
        """Let the loop run on up to a moment; return when something happens next."""
        same = loop is self._loop and state is self._given[0] and event_list is self._given[1] and calls == self._calls
        run_on = only_version(loop) if same else loop
        self._loop, self._given, self._calls = loop, (state, event_list), calls
        return run_on(state, event_list, calls, until)


def pointer(function: Callable[..., object], signature: Signature) -> object:
    """Compile ``function`` to a function pointer that other compiled code can be handed at run time.

    Code that takes a pointer is compiled once, whatever it is handed: a new rule costs its own compilation only.
    Like :func:`compiled` it cannot make arrays.
    """
    options: dict[str, Any] = {"_nrt": False}
    try:
        with _cached(function):
            made: Any = numba.cfunc(signature, cache=True, **options)(function)
    except RuntimeError:
        made = numba.cfunc(signature, **options)(function)
    made._library._shared_module = None  # what could be inlined: callers go by the address
    return made
