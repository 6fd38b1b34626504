"""How a board begins: banks that exist, or banks calibrated on full results, its first rows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..bank import SuiteBank, is_suite
from ..errors import RunError
from ..files import replace_text
from .folder import FORMAT, VERSION, Board, Rules, one_bank_each, read_rules, ruled
from .full import add, calibrated

_IGNORED = ".runs/\n.lock\n"


def init(
    folder: str | Path,
    source: str | Path,
    *,
    task: str | None = None,
    metric: str | None = None,
    **rules: Any,
) -> Board:
    """Begin a board, or give one new banks.

    Parameters
    ----------
    folder : path
        Made where it does not exist. A board that is there already gets the new banks; estimates
        made with banks that these do not descend from are then shown apart.
    source : path
        Logs or a score table of full results, or a folder of such tables (one per task): the banks
        are calibrated on them, and their models are the first rows. Or a suite's folder, or one
        bank: the board then begins without rows.
    task : str, optional
        Tasks of the logs, by commas: names, patterns or groups; default all. The name of the task
        where a table names none.
    metric : str, optional
        Needed where the results hold several.
    **rules
        Of `Rules`: ``name``, ``weights``, ``max_items``, ``exposure``, ``reserve``,
        ``rotate_after``.

    Returns
    -------
    Board

    Raises
    ------
    UsageError
        A rule is out of range.
    CcatError
        The source cannot be read or calibrated.

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
    path, source = Path(folder), Path(source)
    there = (path / "board.json").is_file()
    made = ruled(read_rules(path / "board.json") if there else Rules(), rules)
    banks_given = is_suite(source) or source.suffix == ".json" or _holds_banks(source)
    suite = SuiteBank.load(source) if banks_given else calibrated(source, task, metric)
    one_bank_each(suite, source)
    with nullcontext() if there else _undone_by_errors(path):
        try:
            path.mkdir(parents=True, exist_ok=True)
            if there:
                before = Board(path)
                for bank in before.banks.values():
                    bank.save(before.old_bank(bank.sha256))
            content = {"format": FORMAT, "version": VERSION, **asdict(made)}
            suite.save(path / "suite")
            replace_text(path / "board.json", json.dumps(content, indent=1) + "\n")
            replace_text(path / ".gitignore", _IGNORED)
        except OSError as error:
            raise RunError(f"{path}: cannot write the board ({error.strerror or error})") from error
        board = Board(path)
        if not banks_given:
            add(board, source)
    return board


@contextmanager
def _undone_by_errors(folder: Path) -> Iterator[None]:
    """Where this ends in an error, take out of a folder what was not there before."""
    existed = folder.is_dir()
    before = set(folder.iterdir()) if existed else set()
    try:
        yield
    except BaseException:
        for made in set(folder.iterdir()) - before if folder.is_dir() else ():
            if made.is_dir():
                shutil.rmtree(made, ignore_errors=True)
            else:
                made.unlink(missing_ok=True)
        if not existed and folder.is_dir():
            folder.rmdir()
        raise


def _holds_banks(source: Path) -> bool:
    return source.is_dir() and any(source.glob("*.bank.json"))
