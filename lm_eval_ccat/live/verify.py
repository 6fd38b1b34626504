"""`verify`: check a run's result against its journal and bank, from which it is recomputed.

`salvage_journal` keeps the sound part of a damaged journal, from which the run can be resumed.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import shutil
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from .. import __version__
from ..content import JOURNAL_TAG, PAGE, RESULT, RankingContent
from ..errors import RunError, UsageError
from ..files import replace_bytes, sync_folder, writing
from ..journal import JournalFile, no_ranking, read_journal
from ..masking import mask_values
from ..money import COLUMNS, dollars
from ..plugins import existing
from ..ranker.headline import headline
from ..ranker.verdicts import ALL_PAIRS
from ..records import FORMAT, NewerRecord
from ..runs.directory import CONFIG, RunDirectory, book_of, load_banks, read_object, read_result
from ..shown import short
from .logs_of_run import JournalAnswers
from .result import CLOSE, PARTIAL, Result, contradictory_pairs, leaves_ranking, state, state_of

SOUND, DAMAGED, OTHER_VERSION = 0, 1, 3
#: Keys of a result that are counted from the journal, whatever the version of the methods.
COUNTED = frozenset(
    "items n_items items_administered asked cost usd money failed set_aside models".split()
)
#: Keys that `_differences` leaves out. Four say when and where a result was written, and how far
#: the run was. Warnings and the exit code also depend on options that no journal holds, so that
#: `_contradictions` compares them in its own way.
VOLATILE = frozenset("run_dir seconds finished in_flight warnings exit_code".split())
#: Parts of a result with a row per name, compared row by row.
PARTS = frozenset("models pairwise tasks outcomes groups further".split())
#: Most contradictions that are listed.
MOST_LINES = 12
#: What one of two results has at a key of the other.
NOTHING = object()


@dataclass(frozen=True)
class Condition:
    """The condition of a journal: how much of it is sound.

    Attributes
    ----------
    records : int
        Number of records in the longest sound prefix.
    lost : int
        Number of lines after it, including a torn one.
    damage : str or None
        What is wrong with the first line after it; None if nothing is, or if a crash tore the
        last line, which resuming repairs.
    version : int or None
        Version of the format; None without a sound header.
    size : int
        Bytes of the sound prefix.
    """

    records: int
    lost: int
    damage: str | None
    version: int | None
    size: int


@dataclass(frozen=True)
class Verification:
    """The findings of `verify`.

    Attributes
    ----------
    journal : Condition
    counted, judged : list of str
        Differences between the recorded result and the journal, as ``what: recorded X, now Y``:
        in answers and money, and in verdicts and estimates.
    made_by : str
        Version of this package that started the run.
    words : str
        Summary in one line, or one line per difference.
    """

    journal: Condition
    counted: list[str]
    judged: list[str]
    made_by: str
    words: str

    @property
    def exit_code(self) -> int:
        """Exit code of the command: 0 sound, 1 damaged or contradictory, 3 other verdicts now."""
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
        A run directory. Of a ``result.json`` without a journal only the figures are compared with
        each other.

    Raises
    ------
    RunError
        The folder holds no run, or the journal contradicts itself.
    BankError
        The directory's copy of the bank is missing or damaged.

    Examples
    --------
    >>> verify("my_task.run").exit_code                       # doctest: +SKIP
    0
    """
    path = Path(run)
    folder = path.parent if path.name == RESULT else path
    # Without a journal nothing says whether the figures are those of the answers.
    if stands_alone(folder / RESULT):
        return _verify_alone(folder / RESULT)
    file = folder / RESULT  # read before the journal, to which a run under way adds lines
    recorded = read_result(file) if file.is_file() else None
    condition = _examined(RunDirectory(folder))
    if condition.damage is not None:
        words = (
            f"{condition.damage}.\nSound before it: {condition.records} records. Lines from there "
            f"on: {condition.lost}. `lm-eval-ccat verify {folder} --repair` keeps what is sound."
        )
        return Verification(condition, [], [], "", words)
    return _compared(folder, condition, recorded)


class Recomputed(NamedTuple):
    """A result that is computed from a journal.

    Attributes
    ----------
    result : Result
    content : dict
        Its JSON values.
    answers : JournalAnswers
        The answers of the journal; none were noted if there is nothing to compare them with.
    answers_came_later : bool
        Whether the journal holds answers that the recorded result does not count.
    """

    result: Result
    content: RankingContent
    answers: JournalAnswers
    answers_came_later: bool

    @property
    def made_by(self) -> str:
        """Version of this package that started the run."""
        return str(self.result.header.versions.get("lm_eval_ccat", ""))


def _compared(folder: Path, condition: Condition, recorded: RankingContent | None) -> Verification:
    """Compute the result of a sound journal, and compare it with the one that is recorded, if any.

    Parameters
    ----------
    folder : Path
        The run directory.
    condition : Condition
        What was found of the journal itself.
    recorded : dict, optional
        The content of ``result.json``.
    """
    recomputed = _recomputed(folder, condition, recorded)
    counted, judged = _differences_from(recomputed, folder, condition, recorded)
    if counted or judged:
        words = _why_other(recomputed, folder, condition, only_judged=not counted)
        words = _with_lines(words, [*counted, *judged])
    else:
        words = _sound_in_words(condition, recomputed, has_result=recorded is not None)
        # The page of a run that goes on is always some seconds old.
        if recorded is not None:
            words += _page_doubt(folder, recomputed.content["journal_sha256"])
        if condition.lost:
            words += "\nA crash tore the last line; --resume drops it and asks its item again."
    return Verification(condition, counted, judged, recomputed.made_by, words)


def _last_line(recorded: RankingContent | None) -> int:
    """Return the number of the last line that a recorded result counts; 0 if it states none."""
    return (recorded or cast(RankingContent, {})).get("last_line") or 0


def _recomputed(folder: Path, condition: Condition, recorded: RankingContent | None) -> Recomputed:
    """Return the result of those lines of a journal that the recorded result counts."""
    last_line = _last_line(recorded)
    # `complete` and others may write lines after the result, which are not part of it.
    lines_follow = 0 < last_line < condition.records
    answers = JournalAnswers()
    journal, records = read_journal(RunDirectory(folder).journal.path)
    records = itertools.islice(records, last_line if lines_follow else condition.records)
    # Noted answers take memory, and without a result nothing is compared with them.
    noted = iter if recorded is None else answers.noted
    book = book_of(load_banks(folder), journal, noted(records))
    result = state_of(book, folder, recorded)
    content, answers_came_later = result.content, False
    if lines_follow:
        later_records = itertools.islice(journal.read_new(), condition.records - last_line)
        for record in noted(later_records):
            book.tally.count(record)
            answers_came_later |= not leaves_ranking(record)
    # A new copy sums up the money anew, with that of the lines after the result.
    return Recomputed(replace(result), content, answers, answers_came_later)


def _differences_from(
    recomputed: Recomputed,
    folder: Path,
    condition: Condition,
    recorded: RankingContent | None,
) -> tuple[list[str], list[str]]:
    """Return what is recorded otherwise than computed: what is counted, and what is judged."""
    counted, judged = list[str](), list[str]()
    content, made_by = recomputed.content, recomputed.made_by
    if recorded is not None:
        counted, judged = _contradictions(recorded, mask_values(content), made_by)
        # The logs of another version's run hold the estimates of that version.
        written = content if made_by == __version__ else recorded
        judged += recomputed.answers.contradictions_in_logs(folder, written, CLOSE)
    judged += _differences_of_config(RunDirectory(folder))
    # The result is out of date, or lines that it counts are gone from the journal.
    last_line = _last_line(recorded)
    if recomputed.answers_came_later or last_line > condition.records:
        counted.insert(0, f"lines of the journal: recorded {last_line}, now {condition.records}")
    return counted, judged


def _why_other(
    recomputed: Recomputed, folder: Path, condition: Condition, *, only_judged: bool
) -> str:
    """Return why the recorded result may be another one than the journal's."""
    if recomputed.answers_came_later:
        present = state(folder, condition.records).content
        return (
            f"The result is of {recomputed.content['items_administered']} answers, the journal has "
            f"{present['items_administered']}: rank --resume writes it anew, and report "
            "reads the journal:"
        )
    # All that was counted agrees; another version judges it in another way.
    if only_judged and recomputed.made_by != __version__:
        return f"Made by {recomputed.made_by}; {__version__} comes to other verdicts:"
    return "The journal gives another result:"


def _differences_of_config(directory: RunDirectory) -> list[str]:
    """Return in what a run directory's configuration differs from that of its journal."""
    file = directory.path / CONFIG
    if not file.is_file():
        return []
    sides = read_object(file), mask_values(directory.read_header().config)
    return [
        f"{CONFIG}: {differing.place} is {_text(differing.recorded)}, in the journal "
        f"{_text(differing.recomputed)}"
        for differing in _differences(*sides)
    ]


def _with_lines(words: str, lines: Sequence[str]) -> str:
    """Return words with the first lines below them, and how many more there are."""
    more = [f"and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
    return "\n  ".join([words, *lines[:MOST_LINES], *more])


def _sound_in_words(condition: Condition, recomputed: Recomputed, has_result: bool) -> str:
    """Return what a sound journal holds, and that it gives the result that is recorded, if any."""
    words = f"Sound: {condition.records} records of format {condition.version}, chained"
    words += f", {recomputed.content['items_administered']} answers"
    if money := recomputed.result.money:
        billed, assumed, unknown = (dollars(money[column]) for column in COLUMNS)
        words += f", {billed} billed, {assumed} assumed and {unknown} unknown"
    return words + ("; they give the recorded result." if has_result else "; no result yet.")


def _page_doubt(folder: Path, digest: str) -> str:
    """Return that the page in a run directory shows another result; "" if it does not."""
    page = folder / PAGE
    if not page.is_file():
        return ""
    head = page.read_text("utf-8", errors="replace")
    named = re.search(rf'<meta name="{JOURNAL_TAG}" content="(\w*)">', head)
    if named and named[1] == digest:
        return ""
    return f"\n{PAGE} shows another result: `lm-eval-ccat report {folder}` writes it anew."


def stands_alone(file: Path) -> bool:
    """Whether a file is a result of `rank` without the journal that it rests on."""
    return file.name == RESULT and file.is_file() and not RunDirectory(file.parent).journal.exists()


def _verify_alone(file: Path) -> Verification:
    """Return what a result says of itself, where no journal tells whether it is true."""
    texts = self_contradictions(read_result(file))
    alone = f"{file} stands without its journal, so nothing but self-consistency was checked"
    words = f"{alone}: its figures agree with each other."
    if texts:
        words = _with_lines(f"{alone}, and it contradicts itself:", texts)
    return Verification(Condition(0, 0, None, None, 0), [], texts, __version__, words)


def self_contradictions(result: RankingContent) -> list[str]:
    """Return where the estimates, ranks, pairs and headline of a result contradict each other."""
    texts: list[str] = []
    try:
        texts.extend(_self_contradictions(result))
    except (KeyError, TypeError, ValueError) as error:
        texts.append(f"it is no complete result ({error!r})")
    return texts


def _self_contradictions(result: RankingContent) -> Iterator[str]:
    """Yield where figures contradict each other; an incomplete result raises a `KeyError`."""
    models, order, pairs = result["models"], result["order"], result["pairwise"]
    for name, model in models.items():
        if model["interval"]:
            low, high = sorted(model["interval"])
            if not low - CLOSE <= model["estimate"] <= high + CLOSE:
                yield f"{name}: estimate {model['estimate']} outside {low} to {high}"
    yield from contradictory_pairs(result)
    # A large ranking lists only some of its pairs.
    if len(order) <= ALL_PAIRS and len(pairs) != len(order) * (len(order) - 1) // 2:
        yield f"pairs: {len(pairs)} rows of {len(order)} models"
    ranks = [models[name]["rank"] for name in order]
    better = 1.0 if result["scale"]["higher_is_better"] else -1.0
    estimates = [better * models[name]["estimate"] for name in order]
    if ranks != list(range(1, len(order) + 1)) or any(
        score < following - CLOSE for score, following in itertools.pairwise(estimates)
    ):
        yield "order: neither that of the ranks nor that of the estimates"
    # Why nothing is ranked yet, the figures do not tell, so that headline cannot be made of them.
    nothing_ranked = "nothing is ranked yet"
    words = result.get("headline", nothing_ranked)
    if not words.startswith(nothing_ranked) and words != (computed := headline(result)):
        yield f"headline: {_text(words)}, of the figures {_text(computed)}"


class _Contradictions(NamedTuple):
    """Differences between two results, in words: in counts, and in verdicts and estimates."""

    counted: list[str]
    judged: list[str]


def _contradictions(
    recorded: RankingContent, recomputed: RankingContent, made_by: str
) -> _Contradictions:
    """Return the differences between a recorded result and the one that its journal gives."""
    counted: list[str] = []
    judged: list[str] = []
    for differing in _differences(recorded, recomputed):
        text = _in_words(differing.place, differing.recorded, differing.recomputed)
        missing = NOTHING in (differing.recorded, differing.recomputed)
        if differing.key in COUNTED:
            counted.append(text)
        # Another version may have other keys, and signs otherwise.
        elif made_by == __version__ or not (differing.key == "signature" or missing):
            judged.append(text)
    warnings = recorded.get("warnings", [])
    lost = [text for text in recomputed["warnings"] if text not in warnings]
    judged += [_in_words("warnings", NOTHING, text) for text in lost]
    recorded_code, code = recorded.get("exit_code"), recomputed["exit_code"]
    # Which answers were empty enough to fail is an option of one command, and not in the journal.
    if recorded_code not in (PARTIAL, code):
        judged.append(_in_words("exit_code", recorded_code, code))
    return _Contradictions(counted, judged)


def _in_words(place: str, recorded: Any, recomputed: Any) -> str:
    return f"{place}: recorded {_text(recorded)}, now {_text(recomputed)}"


class _Differing(NamedTuple):
    """A value that differs between two results: its key, its place in words, and both values."""

    key: str
    place: str
    recorded: Any
    recomputed: Any


def _differences(
    recorded: Mapping[str, Any], recomputed: Mapping[str, Any], where: str = ""
) -> Iterator[_Differing]:
    """Yield all that differs between two results; each place begins with `where`."""
    for key in dict.fromkeys((*recorded, *recomputed)):
        sides = [result.get(key, NOTHING) for result in (recorded, recomputed)]
        # Most values agree to the last digit, which is found at once; only others are compared
        # figure by figure.
        if key in VOLATILE or sides[0] == sides[1]:
            continue
        # Rows of pairs are compared by their models: their order means nothing.
        if key == "pairwise":
            sides = [_pairs(side) for side in sides]
        if key not in PARTS or not all(isinstance(side, Mapping) for side in sides):
            if not _same(*sides):
                yield _Differing(key, f"{where}{key}", *sides)
            continue
        # The names of models, pairs and tasks say themselves what they are of.
        prefix = where if key in ("models", "pairwise", "tasks") else f"{where}{key}: "
        for name in dict.fromkeys((*sides[0], *sides[1])):
            rows = [side.get(name, NOTHING) for side in sides]
            if all(isinstance(row, Mapping) for row in rows):
                yield from _differences(rows[0], rows[1], f"{prefix}{name}: ")
            elif not _same(*rows):
                yield _Differing(key, f"{prefix}{name}", *rows)


def _pairs(rows: Any) -> Any:
    """Return rows of pairs by their models; unchanged if some lack a model, or repeat a pair."""
    try:
        pairs = {f"{row['a']} over {row['b']}": row for row in rows}
    except (KeyError, TypeError):
        return rows
    return pairs if len(pairs) == len(rows) else rows


def _same(a: Any, b: Any) -> bool:
    """Whether two JSON values are equal: numbers up to `CLOSE` if one is a float, NaN to NaN."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, float) or isinstance(b, float):
        numeric = isinstance(a, int | float) and isinstance(b, int | float)
        return numeric and (math.isclose(a, b, rel_tol=CLOSE, abs_tol=CLOSE) or (a != a and b != b))
    return bool(a == b)


def _text(value: Any) -> str:
    return "nothing" if value is NOTHING else short(json.dumps(value, ensure_ascii=False))


# -- the journal -----------------------------------------------------------------------------------


class Salvage(NamedTuple):
    """What was found and done to a journal.

    Attributes
    ----------
    condition : Condition
        Condition of the journal before the repair.
    damaged : Path or None
        Where the damaged journal is now; None if nothing was wrong and nothing was done.
    """

    condition: Condition
    damaged: Path | None


def salvage_journal(run: str | Path) -> Salvage:
    """Keep the longest sound prefix of a run's journal, so that the run can be resumed.

    The damaged journal, and a result made from it, are kept next to it under new names.

    Raises
    ------
    RunError
        Another process uses the directory, not even the header is sound, or writing fails.
    """
    folder = RunDirectory(run)
    _examined(folder)  # raises if there is no run, instead of creating one
    folder.take()
    try:
        condition = _examined(folder)
        if condition.damage is None:
            return Salvage(condition, None)
        # A journal without its header names no models, and cannot be resumed.
        if condition.version is None:
            raise RunError(
                f"{folder.journal}: not even the header is sound; nothing can be kept. Start a "
                "new run"
            )
        copy = _free_name(folder.path, "journal.damaged", ".jsonl")
        result = folder.path / RESULT
        with writing(folder.journal.path):
            shutil.copyfile(folder.journal.path, copy)
            sync_folder(folder.path)
            # A result of lines that are cut off would contradict what is left.
            if result.exists():
                result.rename(_free_name(folder.path, "result.damaged", ".json"))
            sound = folder.journal.path.read_bytes()[: condition.size]
            replace_bytes(folder.journal.path, sound, private=True)
        return Salvage(condition, copy)
    finally:
        folder.release()


def _examined(folder: RunDirectory) -> Condition:
    """Return the condition of a run's journal."""
    journal, damage = JournalFile(folder.journal.path), None
    existing(folder.path, "run directory")
    if folder.path.is_file():
        raise UsageError(f"{folder.path} is a file; name the run's directory")
    if not journal.exists():
        raise no_ranking(journal.path)
    try:
        deque(journal.read_new(), maxlen=0)
    # What a newer version wrote is no damage.
    except NewerRecord:
        raise
    except RunError as error:
        damage = str(error).partition(";")[0]  # without the remedy, which follows
    records, size, version = journal.count, journal.size, journal.header.version or None
    if journal.count and journal.header.format != FORMAT:
        records, size, version = 0, 0, None
        damage = f"{journal}, line 1 is not the header of a journal"
    with journal.path.open("rb") as stream:
        stream.seek(size)
        lost = sum(1 for _ in stream)  # a torn line counts
    return Condition(records, lost, damage, version, size)


def _free_name(folder: Path, stem: str, ending: str) -> Path:
    names = (folder / f"{stem}-{number}{ending}" for number in itertools.count(1))
    return next(name for name in names if not name.exists())
