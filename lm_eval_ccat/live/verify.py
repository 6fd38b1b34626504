"""`verify`: whether a run directory says what its journal and bank say, recomputed from these."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import RunError
from ..runs.directory import RunDirectory
from ..runs.lines import Record
from ..runs.salvage import Condition, check_journal
from .result import state

SOUND, DAMAGED, OTHER_VERSION = 0, 1, 3
#: Figures that agree to this are equal.
CLOSE = 1e-9
#: What of a result follows from the journal by counting, whatever the version of the methods.
COUNTED = ("items", "n_items", "cost", "failed", "set_aside", "money")
#: And what a version of the methods makes of it.
JUDGED = ("rank", "rank_range", "estimate", "standard_error", "interval")


@dataclass(frozen=True)
class Verification:
    """The findings of `verify`.

    Attributes
    ----------
    journal : Condition
    counted, judged : list of str
        Where the recorded result differs from the journal: in answers and money, and in verdicts
        and estimates; ``what: recorded X, now Y``.
    made_by : str
        Version of this package that began the run.
    words : str
        All of it in one line, or a line for each difference.
    """

    journal: Condition
    counted: list[str]
    judged: list[str]
    made_by: str
    words: str

    @property
    def exit_code(self) -> int:
        """0: sound; 1: damaged or contradictory; 3: another version comes to other verdicts."""
        if self.journal.damage is not None or self.counted:
            return DAMAGED
        if self.judged:
            return DAMAGED if self.made_by == __version__ else OTHER_VERSION
        return SOUND


def verify(run: str | Path) -> Verification:
    """Recompute verdicts, estimates and costs of a run from its journal and bank alone.

    Parameters
    ----------
    run : path
        A run directory.

    Raises
    ------
    RunError
        There is no run, or the journal contradicts itself.
    BankError
        The directory's copy of the bank is missing or damaged.

    Examples
    --------
    >>> verify("my_task.run").exit_code                       # doctest: +SKIP
    0
    """
    folder = Path(run)
    condition = check_journal(folder)
    if condition.damage is not None:
        words = (
            f"{condition.damage}.\nSound before it: {condition.records} records. Lines from there "
            f"on: {condition.lost}. `lm-eval-ccat verify {folder} --repair` keeps what is sound."
        )
        return Verification(condition, [], [], "", words)
    now = state(folder).content
    header = RunDirectory(folder).read_header()
    made_by = str((header.get("versions") or {}).get("lm_eval_ccat", ""))
    recorded = _recorded(folder)
    counted, judged = [], []
    if recorded is not None:
        counted, judged = list(_counted(recorded, now)), list(_judged(recorded, now))
        if (last := recorded.get("last_line", 0)) > condition.records:
            counted = [f"lines of the journal: recorded {last}, now {condition.records}", *counted]
    verification = Verification(condition, counted, judged, made_by, "")
    return Verification(condition, counted, judged, made_by, _in_words(verification, now, recorded))


def _recorded(folder: Path) -> Record | None:
    """The result that lies in the directory; None while there is none."""
    file = folder / "result.json"
    try:
        content = json.loads(file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read {file}: {error}") from error
    return content if isinstance(content, dict) else None


def _counted(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name, block in old.get("models", {}).items():
        yield from _differences(block, new["models"].get(name, {}), COUNTED, f"{name}: ")
    yield from _differences(old, new, ("usd", "money"), "")


def _judged(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    yield from _differences(old, new, ("order", "ties"), "")
    for name, block in old.get("models", {}).items():
        yield from _differences(block, new["models"].get(name, {}), JUDGED, f"{name}: ")
    pairs = {(p["a"], p["b"]): p for p in new.get("pairwise", ())}
    for pair in old.get("pairwise", ()):
        other = pairs.get((pair["a"], pair["b"]), {})
        keys = ("p", "decision") if "decision" in pair else ("p",)
        yield from _differences(pair, other, keys, f"{pair['a']} over {pair['b']}: ")


def _differences(
    old: Mapping[str, Any], new: Mapping[str, Any], keys: tuple[str, ...], where: str
) -> Iterator[str]:
    for key in keys:
        if key in old and not _same(old[key], new.get(key)):
            yield f"{where}{key}: recorded {_short(old[key])}, now {_short(new.get(key))}"


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, float) or isinstance(b, float):
        both = isinstance(a, int | float) and isinstance(b, int | float)
        return both and (math.isclose(a, b, rel_tol=CLOSE, abs_tol=CLOSE) or (a != a and b != b))
    return bool(a == b)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def _in_words(
    verification: Verification, now: Mapping[str, Any], recorded: Mapping[str, Any] | None
) -> str:
    condition, money = verification.journal, now.get("money") or {}
    text = f"Sound: {condition.records} records of format {condition.version}"
    text += ", chained," if condition.chained else ","
    text += f" {now['items_administered']} answers"
    if money:
        text += f", ${money['billed']:.4g} billed, ${money['assumed']:.4g} assumed"
        text += f" and ${money['unknown']:.4g} unknown"
    if verification.counted or verification.judged:
        head = "The journal gives another result"
        if not verification.counted and verification.made_by != __version__:
            head = f"Made by {verification.made_by}; {__version__} comes to other verdicts"
        lines = [*verification.counted, *verification.judged]
        more = [f"and {len(lines) - 12} more"] if len(lines) > 12 else []
        return "\n  ".join([f"{head}:", *lines[:12], *more])
    text += "; they give the recorded result." if recorded is not None else "; no result yet."
    if condition.lost:
        text += "\nA crash tore the last line; --resume drops it and asks its item again."
    return text
