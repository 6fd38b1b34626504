"""The run directory: its files, who may write to it, and reading a run back from it.

config.json     the configuration as understood, credentials masked
bank.json       a copy of the item bank; of several tasks a folder ``banks`` with all of them
journal.jsonl   every call on the Ranker, answers included (see ``journal``)
result.json     the ranking, written when the run ends
run.log         log lines of the run and of the harness
<model>/        the harness's results and samples files of each model
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

from filelock import FileLock, Timeout

from ..bank import ItemBank
from ..bank.outcome import Outcome
from ..bank.suite import SuiteBank
from ..errors import RunError, UsageError
from ..files import replace_text, set_rights
from ..journal import FORMAT, JOURNAL, VERSION, JournalFile, Record, read_journal
from ..masking import mask, mask_file, mask_values
from ..ranker import Ranker
from ..ranker.contents import Banks
from .book import Book, in_todays_words

#: Suffixes of the files that the harness, its logs and its models write. The journal is not among
#: them: its content is masked before it is written, and its lines are sealed.
_WRITTEN_BY_OTHERS = (".json", ".jsonl", ".log", ".txt", ".csv", ".yaml", ".html")

_LOCK, LOG = "run.lock", "run.log"


class RunDirectory:
    """One run's folder.

    Parameters
    ----------
    path : path
        Created by :meth:`start`.
    """

    def __init__(self, path: str | Path) -> None:
        if is_stored(path):
            raise UsageError(f"{path}: only `rank` copies a run to an object store; name a folder")
        self.path = Path(path)
        self.journal = JournalFile(self.path / JOURNAL)
        self._sole_lock = FileLock(str(self.path / _LOCK), mode=0o600)
        self._created = False

    def take(self) -> None:
        """Lock the directory for this process, until `release` or the end of the process.

        Raises
        ------
        RunError
            If another process holds the lock, or the directory cannot be written.
        """
        new = not self.path.exists()
        self.make()
        self._created = new
        try:
            self._sole_lock.acquire(timeout=0)
        except Timeout:
            raise RunError(
                f"another process is ranking in {self.path}; wait for it, or look at it with "
                f"`lm-eval-ccat rank {self.path}`"
            ) from None
        except OSError as error:
            raise self._cannot_write(error) from error

    def release(self) -> None:
        """Close the journal and let another process take the directory.

        Remove a folder that `take` created if no run began in it.
        """
        self.journal.close()
        begun = {path.name for path in self.path.iterdir()} - {_LOCK, LOG}
        if begun or not self._created:
            self.tighten()
            self._sole_lock.release()
            return
        (self.path / LOG).unlink(missing_ok=True)
        self._sole_lock.release()
        with contextlib.suppress(OSError):  # another process has just taken it
            (self.path / _LOCK).unlink(missing_ok=True)
            self.path.rmdir()

    def make(self) -> None:
        """Create the folder for its owner only; an existing folder keeps its permissions."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise self._cannot_write(error) from error

    def tighten(self) -> None:
        """Mask credentials in files of the harness and libraries, and let only the owner read them.

        In a folder that is open to others, permissions stay as they are.
        """
        private = os.name == "posix" and not self.path.stat().st_mode & 0o077
        for path in self.path.rglob("*"):
            if path.is_symlink():
                continue
            if path.suffix in _WRITTEN_BY_OTHERS and not path.name.startswith("journal"):
                mask_file(path)
            if private:
                set_rights(path, 0o700 if path.is_dir() else 0o600)

    def _cannot_write(self, error: OSError) -> RunError:
        remedy = "choose another with --run_dir"
        if self.journal.exists():  # another one would pay for its answers again
            remedy = "its answers are kept, free the space or fix the rights and resume"
        why = error.strerror or error
        return RunError(f"cannot write in the run directory {self.path}: {why}; {remedy}")

    # -- header ----------------------------------------------------------------------------

    def start(self, identity: Mapping[str, Any]) -> None:
        """Write the configuration and the journal's header of a new run."""
        self.make()
        identity = mask_values({**identity, "config": mask(identity["config"])})
        self.write_json("config.json", identity["config"])
        header = {"op": "header", "format": FORMAT, "version": VERSION, **identity}
        self.journal.append([header])
        self.journal.make_durable()

    def read_header(self) -> Record:
        """Return the journal's first record, without moving the position of :attr:`journal`.

        Raises
        ------
        RunError
            If the folder holds no journal of a version that this package reads.
        """
        return read_journal(self.journal.path)[0].header

    def present_identity(self) -> Record:
        """Return the header with all changes that the journal has recorded since."""
        return read_journal(self.journal.path)[0].identity

    def write_json(self, name: str, content: Any) -> Path:
        """Write a file of the directory atomically, so that no reader sees half of it."""
        target = self.path / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(mask_values(content), indent=2, ensure_ascii=False, default=str)
            replace_text(target, text + "\n", private=True)
        except OSError as error:
            raise self._cannot_write(error) from error
        return target


def read_result(file: Path) -> Record:
    """Return the content of a ``result.json``, or of a results file of the harness.

    Content that is no JSON object counts as none.

    Raises
    ------
    RunError
        The file cannot be read, or is no JSON.
    """
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise RunError(f"{file}: cannot be read as a result ({error})") from error
    return content if isinstance(content, dict) else {}


# -- a ranking from its run directory alone --------------------------------------------------------

BANK_FILE = "bank.json"
#: Folder of the banks of a ranking with several outcomes or tasks.
BANKS_FOLDER = "banks"


def banks_at(folder: Path) -> Path:
    """Return the path of a run directory's copy of its bank or banks."""
    several = folder / BANKS_FOLDER
    return several if several.is_dir() else folder / BANK_FILE


def save_banks(banks: ItemBank | Mapping[str, Mapping[str, ItemBank]], folder: Path) -> None:
    """Write a run directory's copy of its bank or banks.

    Raises
    ------
    BankError
        The copy cannot be written.
    """
    if isinstance(banks, ItemBank):
        banks.save(folder / BANK_FILE)
    else:
        SuiteBank(banks).save(folder / BANKS_FOLDER)


def load_banks(folder: Path) -> ItemBank | Mapping[str, Mapping[str, ItemBank]]:
    """Read a run directory's copy of its bank or banks.

    Raises
    ------
    BankError
        The copy is missing or damaged.
    """
    place = banks_at(folder)
    return ItemBank.load(place) if place.suffix else SuiteBank.load(place)


def make_ranker(
    bank: ItemBank | Mapping[str, Mapping[str, ItemBank]], header: Mapping[str, Any]
) -> Ranker:
    """Return a Ranker in its initial state.

    Parameters
    ----------
    bank : ItemBank, or mapping of task to (mapping of outcome to ItemBank)
    header : mapping
        Header of a journal. Its ``ranker`` holds ``models`` (name to price), ``units`` (a list in
        bank order, or None) and the keyword arguments of `Ranker`; ``task`` names a single task.
    """
    arguments = in_todays_words(header["ranker"])
    rest = {k: v for k, v in arguments.items() if k not in ("models", "options")}
    task = (header.get("task") or {}).get("name", "")
    banks: Banks = [Outcome.of(bank, task)] if isinstance(bank, ItemBank) else bank
    return Ranker(banks, arguments["models"], **rest, **arguments["options"])


def rebuild(folder: str | Path, lines: int | None = None) -> Book:
    """Rebuild a run's state from its directory alone, without configuration, task or model.

    Parameters
    ----------
    folder : path
    lines : int, optional
        Number of journal lines to replay; default: all.

    Returns
    -------
    Book
        Settled, for reading only.

    Raises
    ------
    RunError
        If there is no journal, it was written by another version, or it contradicts itself.
    BankError
        If the directory's copy of the bank is damaged.
    """
    directory = RunDirectory(folder)
    journal, records = read_journal(directory.journal.path)
    return book_of(load_banks(directory.path), journal, records[:lines])


def book_of(
    banks: ItemBank | Mapping[str, Mapping[str, ItemBank]],
    journal: JournalFile,
    records: Iterable[Record],
) -> Book:
    """Rebuild a run's state from its banks, its journal and records of it."""
    book = Book(make_ranker(banks, journal.header), journal)
    book.replay(records)
    book.settle()
    return book


# -- a run directory in an object store -----------------------------------------------------------

# Object stores cannot append to a file, sync it or lock it, all of which a journal needs. So the
# run uses a folder on this machine; while it lasts, the files needed to resume it are copied to the
# store, and at its end all files. A copy of the journal equals that of a run killed at that moment.

#: Seconds between two copies during a run.
COPY_SECONDS = 60.0
_NEEDED = (JOURNAL, "config.json", BANK_FILE, BANKS_FOLDER)


def is_stored(run_dir: str | Path | None) -> bool:
    """Whether a run directory is in an object store."""
    return isinstance(run_dir, str) and "://" in run_dir


@contextmanager
def stored(run_dir: str | Path, resume: bool, warn: Callable[[str], None]) -> Iterator[Path]:
    """Copy a run to an object store while it lasts; yield its folder on this machine.

    Copying starts once the run has started or resumed, so that a refused run changes no store.

    Parameters
    ----------
    run_dir : str or path
        URL of any file system of fsspec; a local folder is yielded unchanged.
    resume : bool
        Fetch the run from the store first, unless the folder has it.
    warn : callable
        Called once if copying fails; the run goes on.

    Raises
    ------
    UsageError
        The URL has no name, or the package for this kind of store is not installed.
    RunError
        The store or the folder holds a run and `resume` is false, they hold different runs, or the
        store cannot be read.
    """
    if not is_stored(run_dir):
        yield Path(run_dir)
        return
    url = str(run_dir).rstrip("/")
    name = url.partition("://")[2].rpartition("/")[2]
    if name in ("", ".", ".."):
        raise UsageError(f"--run_dir {run_dir}: a name is missing, as in s3://bucket/models.run")
    try:
        store, root = import_module("fsspec").url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise UsageError(f"--run_dir {url}: {error}") from None
    folder = Path(name)
    try:
        _agree(store, root, folder, url, resume)
    except RunError:
        raise
    except Exception as error:  # what a store raises is its own
        raise RunError(f"{url}: cannot read the store ({error})") from error
    begun, over = _stamp(folder / JOURNAL), threading.Event()
    copied: dict[Path, tuple[int, int]] = {}
    troubles: list[Exception] = []

    def copy(needed: bool) -> None:
        """Copy the files changed since the last copy, once the journal has changed."""
        if not copied and _stamp(folder / JOURNAL) == begun:
            return
        # Unlike Path.rglob, this tolerates folders that vanish.
        for file in sorted(Path(at, one) for at, _, files in os.walk(folder) for one in files):
            name, stamp = file.relative_to(folder), _stamp(file)
            left_out = file.suffix in (".lock", ".part") or (
                needed and name.parts[0] not in _NEEDED
            )
            if left_out or stamp is None or copied.get(name) == stamp:
                continue
            try:
                _put(store, file, f"{root}/{name.as_posix()}")
                copied[name] = stamp
            except Exception as error:  # what a store raises is its own
                if not file.exists():  # it is being replaced
                    continue
                if not troubles:
                    warn(f"cannot copy the run to {url} ({error}); it is in {folder}")
                troubles.append(error)

    def often() -> None:
        while not over.wait(COPY_SECONDS):
            copy(True)

    thread = threading.Thread(target=often, daemon=True)
    thread.start()
    try:
        yield folder
    finally:
        over.set()
        thread.join()
        copy(False)


def _put(store: Any, file: Path, to: str) -> None:
    try:
        store.put_file(str(file), to)
    except FileNotFoundError:  # where folders are real, create them first
        store.makedirs(to.rpartition("/")[0], exist_ok=True)
        store.put_file(str(file), to)


def _agree(store: Any, root: str, folder: Path, url: str, resume: bool) -> None:
    """Make sure that the folder holds the run to resume, or that no run exists."""
    far, here = store.exists(f"{root}/{JOURNAL}"), (folder / JOURNAL).exists()
    if (far or here) and not resume:
        place = url if far else f"the folder {folder.absolute()}"
        remedy = "choose another" if far else "move the folder away"
        raise RunError(f"{place} holds a run; continue it with --resume, or {remedy}")
    if not far:
        return
    if here:
        # Whole lines only: a copy or a crash may have cut off the last one.
        theirs = store.cat_file(f"{root}/{JOURNAL}").rpartition(b"\n")[0]
        ours = (folder / JOURNAL).read_bytes().rpartition(b"\n")[0]
        if ours.startswith(theirs):
            return
        if not theirs.startswith(ours):
            raise RunError(
                f"the folder {folder.absolute()} holds another run than {url}, or the same one "
                "continued elsewhere; move the folder away to go on with that in the store"
            )
    # The journal last: with it the run counts as present.
    for far_file in sorted(store.find(root), key=lambda name: name.endswith(f"/{JOURNAL}")):
        to = folder / PurePosixPath(far_file).relative_to(root)
        to.parent.mkdir(parents=True, exist_ok=True)
        store.get_file(far_file, str(part := to.with_name(f"{to.name}.part")))
        part.replace(to)


def _stamp(file: Path) -> tuple[int, int] | None:
    """Return a stamp that changes with the file; None without the file."""
    try:
        state = file.stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size
