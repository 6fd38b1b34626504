"""Reading scores: which scores the user wants from a path, and safe reading of logs."""

from __future__ import annotations

import codecs
import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import ScaleError, ScoreTableError, UnknownScoresError, UsageError
from ..metrics.registry import known_scale
from ..metrics.scale import Floats, Scale, differing_scales, has_error_word
from ..plugins import did_you_mean
from ..shown import first_of

#: Called with how much is done and how much there is to do, in bytes or files.
Progress = Callable[[int, int], None] | None

#: Bytes of the longest line: one row holds one document, its prompt and its answers.
MAX_LINE = 128 << 20
#: Bytes of the largest file that is one JSON value.
MAX_VALUE = 1 << 30
#: Bytes that are read at a time.
_CHUNK = 1 << 20
#: How a text in UTF-16 begins.
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
#: How a warning says that neither user nor file states a scale.
OF_METRIC_TABLE = "is that of the metric table"
#: Endings of a task's file.
YAML = (".yaml", ".yml")
#: What makes a folder that of a board.
BOARD = "board.json"


class OwnScale(NamedTuple):
    """The scale of something, and what errors call it."""

    owner: str
    scale: Scale


@dataclass(frozen=True)
class Query:
    """Which scores to read, and what the user states about their scale.

    Attributes
    ----------
    metric, task, filter : str or None
        None means the only one; if there are several, the reader's error asks for a name.
    range : (float, float) or None
        Lowest and highest possible raw score.
    lower_is_better : bool or None
        Of raw scores; None leaves it to the file or the metric table.
    partial : bool
        Whether to read runs whose items were chosen by the model's earlier scores. These scores are
        valid, but not a random sample, so their mean is meaningless.
    selected : bool
        Whether to read runs of documents that the user named to the harness (``--samples``).
    scale : Scale or None
        The scale of the raw scores, cap included; it overrides `range` and `lower_is_better`.
    beside : OwnScale or None
        What the scores are put beside, and its scale: they are read on it. If the source states
        another, or another direction, it is refused; if it states none, a warning says so.
    guess : bool
        Whether the scale may be guessed where neither user nor file states it: scores in [0, 1] of
        a metric that the metric table lacks, or has with other ends, are read as 0 to 1. Where no
        direction is known either, higher counts as better, unless a word of the metric's name
        means an error. Also whether `lower_is_better` may contradict the direction that a file
        states.
    repeats : bool
        Whether all runs of one sampled configuration are read, as repeats; else the latest.
    """

    metric: str | None = None
    task: str | None = None
    filter: str | None = None
    range: tuple[float, float] | None = None
    lower_is_better: bool | None = None
    partial: bool = False
    selected: bool = False
    scale: Scale | None = None
    guess: bool = True
    beside: OwnScale | None = None
    repeats: bool = False

    def guesses(self, metric: str, scale: Scale, stated_scale: Scale | None = None) -> bool:
        """Whether scores alone suggested a scale: neither user, file nor metric table has it."""
        sources = (self.scale, self.beside, self.range, stated_scale)
        if any(source is not None for source in sources):
            return False
        known = self._known(metric)
        return known is None or known.ends != scale.ends

    def _known(self, metric: str) -> Scale | None:
        """Return the scale that the metric table has."""
        return known_scale(metric, task=self.task or "")

    def scale_of(
        self,
        raw: Floats,
        metric: str,
        where: str,
        stated_scale: Scale | None = None,
        lower_is_better: bool | None = None,
    ) -> tuple[Scale, list[str]]:
        """Determine the scale of raw scores, and warnings about it.

        In this order: what the user gave (a whole scale, a range, a direction); what the file
        states (`stated_scale`: its columns, or for harness logs the metric table); [0, 1] if all
        values lie in it; for a metric known to be unbounded above (ter, wer) the cap 1; the metric
        table, if all values lie in the range that it has for the metric; else an error that says
        how to state it.

        Parameters
        ----------
        raw : ndarray
            Scores; NaN where missing.
        metric : str
        where : str
            The file, for error messages.
        stated_scale : Scale, optional
        lower_is_better : bool, optional
            The direction that the file states without a scale.

        Raises
        ------
        ScoreTableError
            There is no score.
        ScaleError
            No scale could be found, it could only be guessed and may not be, or it is not that of
            `beside`.
        UsageError
            The user turns the direction that the file states, and may not.
        """
        source = _Source(
            raw,
            metric=metric,
            where=where,
            scale=stated_scale,
            lower_is_better=lower_is_better,
            known=self._known(metric),
        )
        if self.beside is not None:
            return source.scale_beside(self.beside)
        scale, notes = self._read_scale(source)
        notes = [*notes, *self._direction_notes(source)]
        if self.guesses(metric, scale, stated_scale):
            notes += self._guess_notes(source, scale)
        return scale, notes

    def _read_scale(self, source: _Source) -> tuple[Scale, list[str]]:
        """Return the scale that is stated or fits, and warnings about it; see `scale_of`."""
        if self.scale is not None:
            return self.scale, []
        lowest, highest = source.ends()
        lower = self._lower_is_better(source)
        if self.range is not None:
            scale = self._scale_of_range(lower)
            # Of an error without an upper end, the worst score that the user states is a cap.
            if source.unbounded and lower and scale.low == 0.0:
                return source.capped(scale.high, lower)
            return scale, []
        if source.scale is not None:
            if source.scale.cap is not None:
                return source.capped(source.scale.cap, lower)
            return Scale(*source.scale.ends, higher_is_better=not lower), []
        # Where nothing is stated, the scores decide which scale they fit.
        if Scale().holds([lowest, highest]):
            return Scale(higher_is_better=not lower), []
        known = source.known
        if known is not None and known.cap is None and known.holds([lowest, highest]):
            scale = Scale(*known.ends, higher_is_better=not lower)
            return scale, [f"the scale of {source.metric} {OF_METRIC_TABLE}: {scale.describe()}"]
        # Most rates of errors (ter, wer) are below 1; most would lie above it in per cent.
        if source.unbounded and lower and lowest >= 0.0 and np.nanmedian(source.raw) <= 1.0:
            scale, notes = source.capped(1.0, lower)
            of_table = f"the scale of {source.metric} {OF_METRIC_TABLE}: {scale.describe()}"
            return scale, [of_table, *notes]
        raise ScaleError(
            f"{source.where}: scores of {source.metric!r} run from {lowest:.6g} to "
            f"{highest + 0.0:.6g} and their scale is not known; state it with range, and "
            "lower_is_better if less is better (--range WORST,BEST)"
        )

    def _lower_is_better(self, source: _Source) -> bool:
        """Return the direction: what the user says, else the source, else the metric table."""
        for lower in (self.lower_is_better, source.states_lower):
            if lower is not None:
                return lower
        return source.known is not None and not source.known.higher_is_better

    def _scale_of_range(self, lower: bool) -> Scale:
        """Return the scale of the range that the user states."""
        try:
            low, high = map(float, self.range or ())
        except (TypeError, ValueError):
            raise ScaleError(
                f"range {self.range!r:.60} is not (lowest, highest), such as (0, 100)"
            ) from None
        return Scale(low, high, higher_is_better=not lower)

    def _direction_notes(self, source: _Source) -> list[str]:
        """Return a warning if the user turns the direction that the source states, or refuse."""
        stated_lower = source.states_lower
        if None in (stated_lower, self.lower_is_better) or stated_lower == self.lower_is_better:
            return []
        direction, opposite = ("higher", "lower") if self.lower_is_better else ("lower", "higher")
        turned = (
            f"{source.where} states that a {direction} {source.metric} is better, not a {opposite} "
            "one"
        )
        if not self.guess:
            raise UsageError(f"{turned}; state its range in this direction, or correct the file")
        return [f"{turned}, as you say and as it is read"]

    def _guess_notes(self, source: _Source, scale: Scale) -> list[str]:
        """Return a warning about a scale that the scores alone suggest; refuse what may not be."""
        known, metric = source.known, source.metric
        if known is not None:
            unknown = (
                f"scores of {metric!r} look like {scale.low:g} to {scale.high:g}, but the metric "
                f"table has {known.describe()}"
            )
        elif source.states_lower is None:
            unknown = f"neither the scale nor the direction of {metric!r} is known"
        else:
            unknown = f"the direction of {metric!r} is known, but not its scale"
        no_direction = known is None and source.states_lower is None
        undirected = no_direction and self.lower_is_better is None
        # "Higher is better" would turn the ranking of a metric whose name means an error.
        if not self.guess or (undirected and has_error_word(metric)):
            state = "state both" if no_direction else "state it"
            raise ScaleError(
                f"{source.where}: {unknown}; {state}: --range WORST,BEST (range=, lower_is_better=)"
            )
        if known is not None:
            return [f"{unknown}; they are read as the former"]
        if undirected:
            return [f"{unknown}: read as {scale.describe()} (--range WORST,BEST states both)"]
        return []


@dataclass(frozen=True)
class _Source:
    """Scores of a metric, and what their source and the metric table say of their scale.

    Attributes
    ----------
    raw : ndarray
        Scores; NaN where missing.
    metric, where : str
        Metric and file, for messages.
    scale : Scale or None
        What the source states.
    lower_is_better : bool or None
        The direction that the source states by itself, with or without a scale.
    known : Scale or None
        What the metric table has.
    """

    raw: Floats
    metric: str
    where: str
    scale: Scale | None
    lower_is_better: bool | None
    known: Scale | None

    @property
    def states_lower(self) -> bool | None:
        """Whether the source states that lower is better; None if it states no direction."""
        if self.lower_is_better is None and self.scale is not None:
            return not self.scale.higher_is_better
        return self.lower_is_better

    @property
    def unbounded(self) -> bool:
        """Whether source or metric table says that the metric has no upper end."""
        return any(
            scale is not None and scale.cap is not None for scale in (self.scale, self.known)
        )

    def ends(self) -> tuple[float, float]:
        """Return the lowest and the highest score."""
        lowest, highest = (end(self.raw, axis=None) for end in (np.fmin.reduce, np.fmax.reduce))
        if np.isnan(lowest):
            raise ScoreTableError(f"{self.where}: every score of metric {self.metric!r} is missing")
        return float(lowest), float(highest)

    def capped(self, cap: float, lower_is_better: bool) -> tuple[Scale, list[str]]:
        """Return the scale of an error without an upper end; a warning if scores exceed the cap."""
        if not lower_is_better:
            raise ScaleError(
                f"{self.where}: {self.metric} is unbounded above, so less of it is better; if more "
                "is, state its range (--range WORST,BEST)"
            )
        over = share_above_cap(self.raw, cap, self.metric, self.where)
        note = (
            f"{self.metric} is unbounded: scores are capped at {cap:g} ({over:.1%} of them lie "
            "above) and what is estimated is the capped mean"
        )
        return Scale(cap=cap), [note] if over else []

    def scale_beside(self, peer: OwnScale) -> tuple[Scale, list[str]]:
        """Return the scale of a peer, on which the scores are to be read, too.

        A warning comes with it if the source does not state a scale of its own.

        Parameters
        ----------
        peer : OwnScale
            What the scores will be used with, such as a bank, and its scale.

        Raises
        ------
        ScaleError
            The source states another scale.
        """
        owner, scale = peer
        of_source = self.scale or scale
        # A source that states only the direction is taken to have the peer's ends.
        if self.scale is None and self.lower_is_better is not None:
            of_source = Scale(*scale.ends, higher_is_better=not self.lower_is_better)
        # If both are unbounded, raw scores are alike whatever caps the two state.
        both_unbounded = None not in (scale.cap, of_source.cap)
        if not both_unbounded and (
            difference := differing_scales(self.metric, peer, (self.where, of_source))
        ):
            raise ScaleError(f"{difference}. {self._remedy(of_source, scale)}")
        if self.scale is not None:
            return scale, []
        unknown = "scale" if self.lower_is_better is None else "ends of the scale"
        return scale, [
            f"{self.where} does not state the {unknown} of {self.metric}; {owner} has "
            f"{scale.describe()}, and so are the scores read"
        ]

    def _remedy(self, of_source: Scale, scale: Scale) -> str:
        """Say how to write scores on `scale`, or to read them on it if the source is wrong."""
        one_way = scale.higher_is_better == of_source.higher_is_better
        if one_way and scale.cap is None and not scale.holds(self.raw):
            return rescaling(self.where, Logged(None, self.metric), of_source, scale)
        # Another direction, or scores that fit the other scale: the source likely states it wrong.
        ends = f"({scale.low:g}, {scale.high:g})"
        return (
            f"If {self.where} states a wrong one, write its scores with the right one: "
            f"ScoreTable.read({self.where!r}, {self.metric!r}, range={ends}, "
            f"lower_is_better={not scale.higher_is_better}).write('scores.parquet')"
        )


def share_above_cap(raw: Floats, cap: float, metric: str, where: str) -> float:
    """Return the share of raw scores above the cap of a metric without an upper end.

    Such a metric, as perplexity, is an error: less is better. A score above the cap counts as the
    cap itself, the worst score.

    Parameters
    ----------
    raw : ndarray
        Raw scores, at least one of them; NaN where one is missing.
    cap : float
    metric : str
    where : str
        What holds the scores, for the error message.

    Raises
    ------
    ScaleError
        It is more than half: most models would get the same score.

    Examples
    --------
    >>> share_above_cap(np.array([10.0, 200.0, np.nan, 50.0, 20.0]), 100.0, "perplexity", "logs")
    0.25
    """
    over = float(np.count_nonzero(raw > cap) / np.count_nonzero(~np.isnan(raw)))
    if over > 0.5:
        raise ScaleError(
            f"{where}: scores of {metric!r} run from {np.nanmin(raw):.6g} to {np.nanmax(raw):.6g}, "
            f"and {over:.1%} of them lie above {cap:g}, where they are capped: models cannot be "
            "told apart; state the worst one that counts (--range WORST,0, as 100,0; for live "
            f"models `metadata: {{ccat_scales: {{{metric}: {{cap: 100}}}}}}` in the task's YAML)"
        )
    return over


#: Nothing is stated: the only metric, task and filter.
ANY = Query()


@dataclass(frozen=True)
class Logged:
    """One metric and filter of one task that a path holds; None where the path does not name it."""

    task: str | None
    metric: str
    filter: str | None = None

    @property
    def name(self) -> str:
        """Task, metric and filter as a single name, without what says nothing.

        Examples
        --------
        >>> Logged("gsm8k", "exact_match", "strict-match").name, Logged(None, "acc", "none").name
        ('gsm8k/exact_match,strict-match', 'acc')
        """
        key = f"{self.metric},{self.filter}" if self.filter not in (None, "none") else self.metric
        return f"{self.task}/{key}" if self.task else key

    def query(self, query: Query) -> Query:
        """Return what the user states, for this task, metric and filter."""
        return replace(query, metric=self.metric, task=self.task, filter=self.filter)


def rescaling(where: str, outcome: Logged, of_source: Scale, scale: Scale) -> str:
    """Say how to write a source's scores on another scale of the same direction."""
    lower = "" if scale.higher_is_better else ", lower_is_better=True"
    named = "".join(
        f", {key}={value!r}"
        for key, value in (("task", outcome.task), ("filter", outcome.filter))
        if value not in (None, "none")
    )
    (low, high), (lowest, highest) = of_source.ends, scale.ends
    return (
        f"Write the scores on that scale: ScoreTable.read({where!r}, {outcome.metric!r}{named}, "
        f"range=({low:g}, {high:g}){lower}).rescaled({lowest:g}, {highest:g})"
        ".write('scores.parquet')"
    )


def task_of_file(file: Path) -> str | None:
    """Return the name of the task that a YAML file defines; None if it defines no single task."""
    text = file.read_text(encoding="utf-8", errors="replace")
    # Not parsed as YAML: a task's file has tags that only the harness knows.
    definition = re.search(r"^task:[ \t]*([\"']?)(\w.*?)\1[ \t]*(#.*)?$", text, re.MULTILINE)
    return None if definition is None else definition[2]


def task_name(task: str) -> str:
    """Return the name under which logs hold a task, which may be given as its YAML file.

    Examples
    --------
    >>> _ = Path("sums.yaml").write_text("task: my_sums\\n")
    >>> task_name("sums.yaml"), task_name("gsm8k")
    ('my_sums', 'gsm8k')
    """
    file = Path(task)
    return (file.suffix in YAML and file.is_file() and task_of_file(file)) or task


def one_of(path: Path, what: str, requested: str | None, names: Iterable[Any]) -> Any:
    """Return the name that is requested of `what` (task, metric, filter), or the only one.

    Raises
    ------
    UnknownScoresError
        There is no such value, or there are several and none is named.
    """
    known = sorted(set(names), key=str)
    listing = first_of(known, 12)
    # The only one need not be named.
    if requested is None:
        if len(known) != 1:
            raise UnknownScoresError(
                f"{path}: {len(known)} {what}s ({listing}); name one (--{what})"
            )
        return known[0]
    if requested not in known:
        hint = did_you_mean(requested, known, listing=False) or f"; it has {listing}"
        raise UnknownScoresError(f"{path}: no scores of {what} {requested!r}{hint}")
    return requested


#: Name of a metric that a table does not name.
UNNAMED = "score"


def is_number(doc_id: object) -> bool:
    """Whether a doc_id is a text of a whole number as Python writes it, of at most 18 digits.

    Examples
    --------
    >>> is_number("12"), is_number("012"), is_number(12)
    (True, False, False)
    """
    return isinstance(doc_id, str) and doc_id.isdecimal() and str(int(doc_id[:18])) == doc_id


def places_at(path: Path) -> list[Path]:
    """Return the folders outside a folder to which links in it lead; the path itself if none do."""
    links = (
        [link for link in path.iterdir() if link.is_symlink() and link.is_dir()]
        if path.is_dir()
        else []
    )
    root = path.resolve() if links else path
    # A folder may gather links to logs elsewhere; links within it would be read twice.
    elsewhere = [
        path / link.readlink() for link in sorted(links) if not link.resolve().is_relative_to(root)
    ]
    return elsewhere or [path]


def files_at(path: Path, pattern: str) -> list[Path]:
    """Return the file itself, or the files in and below a folder whose names match.

    Links directly in the folder to folders elsewhere are followed.
    """
    if path.is_file():
        return [path]
    # `rglob` follows no links; without links to elsewhere `places_at` gives the path once more.
    folders = dict.fromkeys([path, *places_at(path)])
    return [file for folder in folders for file in sorted(folder.rglob(pattern)) if file.is_file()]


# -- logs that strangers wrote, read in bounded memory ------------------------------------------
#
# A line, or a file that is one JSON value, is held in memory whole, and what a parser builds of it
# takes several times its size. So one that is too large for any log is refused by name, before it
# is read to its end; compressed files count by what they unpack to.


def open_log(path: Path) -> Any:
    """Open a plain or gzip-compressed log for reading bytes."""
    return gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")


def _tolerant(line: bytes) -> Any:
    """Return the JSON value of a line, whose text may be damaged."""
    # Editors of Windows begin a file with a byte order mark, which utf-8-sig takes away.
    return json.loads(line.decode("utf-8-sig", "replace"))


def json_lines(path: Path, parse: Callable[[bytes], Any] = _tolerant) -> Iterator[tuple[int, Any]]:
    """Yield the values on the lines of a plain or compressed file, but for blank lines.

    Yields
    ------
    int, object
        Number of the line, from 1, and its value; the error where it has none.

    Raises
    ------
    ScoreTableError
        When a line has more than `MAX_LINE` bytes.
    OSError, EOFError, zlib.error
        When the file cannot be read on.
    """
    with open_log(path) as stream:
        lines = iter(lambda: stream.readline(MAX_LINE + 1), b"")
        for number, line in enumerate(lines, start=1):
            if len(line) > MAX_LINE:
                raise ScoreTableError(f"{path}: a line of more than {MAX_LINE:,} bytes: not a log")
            # Editors leave an empty line at the end.
            if not line.isspace():
                try:
                    value = parse(line)
                except (ValueError, RecursionError) as error:
                    value = error
                yield number, value


def board_in_words(path: Path) -> str:
    """Say what to do instead if a path is a board, or the journals of its rows; else ""."""
    board = path.parent if path.name == "journals" else path
    if not (board / BOARD).is_file():
        return ""
    return (
        f"{board} is a board, and its rows are no results of one run: `lm-eval-ccat board check "
        f"{board}` verifies them, its banks are in {board}/suite; two of its models are compared "
        'by `rank` of both in one run, or by "Is A better than B?" on the page of `board '
        "publish`"
    )


def remedy_of(path: Path) -> str:
    """Return what to do with a table that is empty or of another encoding; "" if it is neither."""
    with path.open("rb") as stream:
        beginning = stream.read(64)
    if not beginning.strip():
        return "the file is empty: write it again"
    if path.suffix in (".csv", ".jsonl") and (beginning[:2] in UTF_16 or b"\0" in beginning):
        return "it looks like UTF-16: save it as UTF-8"
    return ""


def first_record(path: Path) -> dict[str, Any]:
    """Return the JSON object on the first line of a file; empty where there is none."""
    with path.open("rb") as stream:
        try:
            record = json.loads(stream.readline(_CHUNK))
        except (ValueError, RecursionError):
            return {}
    return record if isinstance(record, dict) else {}


def json_value(path: Path) -> Any:
    """Return the JSON value that is the whole of a plain or compressed file.

    Raises
    ------
    ScoreTableError
        When it has more than `MAX_VALUE` bytes.
    OSError, EOFError, ValueError, RecursionError
        When it cannot be read, or is no JSON.
    """
    chunks, size = [], 0
    with open_log(path) as stream:
        while chunk := stream.read(_CHUNK):
            chunks.append(chunk)
            size += len(chunk)
            if size > MAX_VALUE:
                raise ScoreTableError(
                    f"{path}: more than {MAX_VALUE:,} bytes of one JSON value; write its rows as "
                    "JSON lines"
                )
    return json.loads(b"".join(chunks))
