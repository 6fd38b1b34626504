"""Create a board, or give it new banks."""

from __future__ import annotations

import fnmatch
import shlex
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..bank import ItemBank, SuiteBank, is_suite
from ..bank.file import bank_files, located
from ..errors import RunError, UsageError
from ..live.outcomes import tasks_of_bank
from ..metrics.scale import differing_scales
from ..scores.table import reader_of
from ..shown import first_of
from ..upkeep.build import build
from .adding import add_full
from .folder import (
    LOCK,
    RULES,
    Board,
    Rules,
    changed_rules,
    one_bank_each,
    read_rules,
    write_board,
)
from .scoring import forget_scoring


def _holds_banks(source: Path) -> bool:
    """Whether a file or folder holds banks rather than results; both may be a folder."""
    is_json = source.name.removesuffix(".gz").endswith(".json")
    return is_suite(source) or is_json or bool(bank_files(source))


def init(
    folder: str | Path,
    source: str | Path,
    *,
    task: str | None = None,
    metric: str | None = None,
    say: Callable[[str], object] = lambda line: None,
    **rules: Any,
) -> Board:
    """Create a board, or give an existing one new banks.

    Parameters
    ----------
    folder : path
        The board's folder, created if necessary. If it is a board already, `source` must be banks.
        Estimates that were made with banks of which the new ones are no updates are then shown
        apart.
    source : path
        Full results: logs, a score table, or a folder of such tables (one per task). The banks are
        calibrated on them, and their models are the first rows. Or banks: the folder of a suite or
        a single bank, as a path, the name of a public one, or on the hub (``hub:owner/name``). The
        board then starts without rows.
    task : str, optional
        Tasks of the logs or of the suite, comma-separated: names, patterns or groups; all by
        default. For a table that names no task, the name of its task.
    metric : str, optional
        Metric; needed if the results hold several. Of several, comma-separated, each task takes the
        first that it reports; a filter follows its metric in the same way.
    say : callable, optional
        Called with a line on each task without a bank, on each model whose results are left out,
        and on what is not known.
    **rules
        Fields of `Rules`: ``name``, ``weights``, ``max_items``, ``exposure``, ``reserve``,
        ``rotate_after``.

    Returns
    -------
    Board

    Raises
    ------
    UsageError
        If a rule is unknown or out of range, or full results are given for an existing board.
    CcatError
        If the source cannot be read, no bank can be calibrated on it, or another process is writing
        to the board.

    Examples
    --------
    >>> import tempfile
    >>> from lm_eval_ccat import ItemBank
    >>> bank = ItemBank.blank(range(9), task="t", metric="acc")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     bank.save(Path(folder, "t.bank.json"))
    ...     board = init(Path(folder, "board"), Path(folder, "t.bank.json"), name="Mine")
    ...     (board.rules.name, list(board.banks), board.shares)
    ('Mine', ['t'], {'t': 1.0})
    """
    path, source_path = Path(folder), Path(source)
    # A file or folder of that name comes before a public bank of that name.
    source = source_path if source_path.exists() else located(source)
    exists = (path / RULES).is_file()
    # An existing board keeps the rules that are not stated anew.
    new_rules = changed_rules(read_rules(path / RULES) if exists else Rules(), rules)
    has_banks = source != source_path or _holds_banks(source)
    if exists and not has_banks:
        raise UsageError(
            f"{path} is a board already: add models with `lm-eval-ccat board add "
            f"{shlex.quote(str(path))} {shlex.quote(str(source))}`, "
            "or give it new banks: --from BANKS"
        )
    if has_banks:
        suite = SuiteBank.load(source, _tasks_named(source, task))
    else:
        suite = _calibrated_suite(source, task, metric, say)
    bank_of = one_bank_each(suite, source)
    try:
        if exists:
            with Board(path).locked():
                _retire_banks(Board(path), bank_of)
                write_board(path, suite, new_rules)
        else:
            _create(path, suite, new_rules, None if has_banks else source, say)
    except OSError as error:
        raise RunError(f"{path}: cannot write the board ({error.strerror or error})") from error
    return Board(path)


def _create(
    path: Path,
    suite: SuiteBank,
    rules: Rules,
    full_results: Path | None,
    say: Callable[[str], object],
) -> None:
    """Create a board with rows of the full results that its banks are calibrated on, if any."""
    # It is made elsewhere and copied once it is whole, so that a failure leaves no half of a board.
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder, "board")
        write_board(draft, suite, rules)
        if full_results is not None:
            added = add_full(Board(draft), full_results, calibrated=True)
            for line in (*added.notes, *added.reasons):
                say(line)
        # The draft's lock file is of a lock on the draft, and would lock no board.
        without_lock = shutil.ignore_patterns(LOCK)
        shutil.copytree(draft, path, dirs_exist_ok=True, ignore=without_lock)


def _retire_banks(board: Board, new_banks: Mapping[str, ItemBank]) -> None:
    """Move a board's banks to its earlier ones, unless the new ones are on another scale."""
    for task, new in new_banks.items():
        old = board.banks.get(task)
        # Rows stay, and are of the old scale; rows of another metric stand apart anyway.
        if old is None or old.metric != new.metric:
            continue
        if words := differing_scales(new.metric, ("the board", old.scale), ("the bank", new.scale)):
            raise UsageError(f"{words}; calibrate with the board's scale, or begin another board")
    for bank in board.banks.values():
        bank.save(board.old_bank(bank.sha256))
    # New banks may be of another version of a task, which is scored in its own way.
    forget_scoring(board)


def _tasks_named(source: Path, task: str | None) -> list[str] | None:
    """Return those tasks of a folder of banks that the option `task` names; None for all."""
    if not task or not source.is_dir():
        return None
    names: list[str] = []
    tasks_of_source = SuiteBank.tasks(source)
    for pattern in tasks_of_bank(source, [name.strip() for name in task.split(",")]):
        if not (tasks := fnmatch.filter(tasks_of_source, pattern)):
            raise UsageError(
                f"{source} has no bank of task {pattern}; it has: {first_of(tasks_of_source, 20)}"
            )
        names += tasks
    return names


def _calibrated_suite(
    source: Path, task: str | None, metric: str | None, say: Callable[[str], object]
) -> SuiteBank:
    """Calibrate the banks of every task of some full results, and tell of tasks without one."""

    def on_bank(task: str, name: str, bank: ItemBank | str, facts: Mapping[str, Any]) -> None:
        """Say why a task has no bank; see `build` for the arguments."""
        # A board may stand without one of its tasks, but not without saying so.
        if isinstance(bank, str):
            say(f"{task} {name}: not on the board, as there is no bank: {bank}")

    names = [name.strip() for name in (task or "*").split(",") if name.strip()]
    metrics = [metric.strip() for metric in metric.split(",")] if metric else None
    unnamed = {outcome.task for outcome in reader_of(source).outcomes(source)} == {None}
    suite = build(source, ["*"] if unnamed else names, metrics, on_bank=on_bank, single=True)
    banks: dict[str, dict[str, ItemBank]] = {}
    for recorded, outcomes in suite.items():
        # `task` names the task of a table that names none; elsewhere it chooses among tasks.
        name = task if unnamed and task else recorded
        banks[name] = {key: replace(bank, task=name) for key, bank in outcomes.items()}
    return SuiteBank(banks)
