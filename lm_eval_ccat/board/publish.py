"""The site of a board: a page without external resources, and the same content as JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import RunError
from ..files import replace_text, writing
from ..grouping import grouped
from ..masking import mask_text
from ..metrics.scale import Scale
from ..ranker.headline import Lead
from ..report.chart import asset
from ..report.page import environment, own_files
from ..report.tables import script_json
from ..report.trust import WHATEVER_THE_BANK, on_scale
from ..shown import exact_percent, first_of, plural, some, visible_line
from .cheats import copies
from .checking import BrokenEvidence, broken_evidence
from .folder import EXPOSURE, FACTS, Board, BoardStanding, Placed, RowApart, keep_hashes, standing
from .ledger import FROM_A_COPY, BoardRow, TaskScore, shown_items
from .scoring import unknown_scoring

FORMAT, VERSION = "lm-eval-ccat/board-site", 1
#: Digits of figures in the page's data.
_DIGITS = 6
#: Largest number of incomparable rows on the page; the JSON has all.
_MAX_APART = 200
#: Largest number of notes at the head of the page.
_MAX_NOTES = 8
#: First characters of a cell of which a spreadsheet makes a formula, and the mark against that.
_COMPUTED = ("=", "+", "-", "@", "\t", "\r", "'")


def publish(
    board: Board | str | Path, site: str | Path, *, say: Callable[[str], object] = lambda line: None
) -> list[Path]:
    """Write the site of a board, and return its files.

    Rows whose journal or scores are missing or changed are listed apart, with the reason. Figures
    are not recomputed; `check` does that.

    Parameters
    ----------
    board : Board or path
    site : path
        The folder; its files ``index.html``, ``board.json`` and ``board.csv`` are replaced. To how
        many models each item was shown is written to ``exposure.csv`` in the board's own folder,
        for the operator alone: who knows the items that are asked most can learn them.
    say : callable, optional
        Called with a line on each thing that the page lacks, and on what to restore.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    RunError
        If the ledger is damaged, no row has its evidence, or the folder cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from lm_eval_ccat import ItemBank
    >>> from lm_eval_ccat.board import init
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ItemBank.blank([0, 1], task="t").save(Path(folder, "bank.json"))
    ...     board = init(Path(folder, "board"), Path(folder, "bank.json"))
    ...     [path.name for path in publish(board, Path(folder, "site"))]
    ['index.html', 'board.csv', 'board.json']
    """
    board = board if isinstance(board, Board) else Board(board)
    rows = board.ledger.rows()
    broken_rows = {
        n: broken for n, broken in enumerate(broken_evidence(board, rows)) if broken is not None
    }
    state = standing(board, broken_rows)
    state.apart.extend(
        RowApart(rows[n], f"refused: {broken.reason}") for n, broken in broken_rows.items()
    )
    facts = facts_of_models(board)
    without_evidence = _without_evidence(broken_rows.values(), len(rows))
    for line in (without_evidence, _unknown_models(facts, rows), state.weighed_otherwise):
        if line:
            say(line)
    copies_of = copies(board, [place.row for place in state.placed])
    files = _Site(board, rows, state, facts, shown_items(rows), copies_of)
    with writing(board.path / EXPOSURE):
        replace_text(board.path / EXPOSURE, _csv(files.exposure()))
        # The operator's facts are sealed as they are published, so that a later change shows.
        keep_hashes(board.path, [board.path / FACTS])
    texts = {
        "index.html": mask_text(files.html()),
        "board.csv": _csv(files.table()),
        "board.json": json.dumps(files.content(), ensure_ascii=False, allow_nan=False) + "\n",
    }
    folder = Path(site)
    with writing(folder / "index.html"):
        for name, text in texts.items():
            replace_text(folder / name, text)
    return [folder / name for name in texts]


@dataclass(frozen=True)
class _Site:
    """What the files of a site are made of.

    Attributes
    ----------
    board : Board
    rows : sequence of BoardRow
        All rows of the ledger.
    state : BoardStanding
        Those that stand, and those that are listed apart.
    facts : mapping of model to mapping
        What the operator says of each model.
    times_shown : mapping of task to Counter of doc_id
        To how many models each item was shown.
    copies_of : mapping of model to sequence of str
        The models whose scores are like its own.
    """

    board: Board
    rows: Sequence[BoardRow]
    state: BoardStanding
    facts: Mapping[str, Mapping[str, str]]
    times_shown: Mapping[str, Counter[Any]]
    copies_of: Mapping[str, Sequence[str]]

    def exposure(self) -> Iterator[list[Any]]:
        """Yield the rows of ``exposure.csv``, its head first: items by the models that had them."""
        yield ["task", "doc_id", "models"]
        for task, counts in self.times_shown.items():
            for doc_id, n_models in counts.most_common():
                yield [task, doc_id, n_models]

    def content(self) -> dict[str, Any]:
        """Return the content of ``board.json``."""
        board, state = self.board, self.state
        return {
            "format": FORMAT,
            "version": VERSION,
            "name": board.rules.name,
            "headline": state.headline,
            "scale": board.scale.to_dict(),
            "weights": board.shares,
            "ledger_head": board.ledger.head(),
            "citation": citation(board, self.rows),
            "hashes": board.hashes,
            "rows": [
                {"rank": place.rank, "rank_range": [place.best, place.worst],
                 "lead": place.lead and _difference_of(place.lead, board.scale),
                 **_public(place.row), "copies": list(self.copies_of.get(place.row.model, ())),
                 "facts": self.facts.get(place.row.model, {})}
                for place in state.placed
            ],
            "not_comparable": [{"reason": reason, **_public(row)} for row, reason in state.apart],
        }  # fmt: skip

    def table(self) -> list[list[Any]]:
        """Return the rows of ``board.csv``, its head first; a model without a rank has no row.

        Each task has columns of its own: score, ends of the interval, and repeats.
        """
        tasks, placed = list(self.board.banks), self.state.placed
        head = "rank best worst model kind score low high confidence items documents date".split()
        # A task has a column of repeats only if some model answered it more than once.
        repeated = {
            task: any(place.row.tasks[task].repeats > 1 for place in placed) for task in tasks
        }
        for task in tasks:
            head += [task, f"{task}_low", f"{task}_high", *[f"{task}_repeats"] * repeated[task]]
        table: list[list[Any]] = [[*head, "copies"]]
        for place in placed:
            row = place.row
            cells = [
                place.rank, place.best, place.worst, row.model, row.kind, row.score, row.low,
                row.high, row.confidence, row.items, row.documents, row.date,
            ]  # fmt: skip
            for task in tasks:
                score = row.tasks[task]
                cells += [score.score, score.low, score.high, *[score.repeats] * repeated[task]]
            # Names may hold spaces and commas.
            table.append([*cells, "; ".join(self.copies_of.get(row.model, ()))])
        return table

    def html(self) -> str:
        """Return the page."""
        board, state = self.board, self.state
        content = {
            "title": board.rules.name,
            "headline": state.headline,
            "notes": self._notes(),
            "apart": [
                {"model": visible_line(row.model), "score": f"{row.score:.4g}", "reason": reason,
                 "documents": f"{row.items:,} of {row.documents:,}", "date": row.date}
                for row, reason in state.apart[:_MAX_APART]
            ],
            "n_apart": len(state.apart),
            "tasks": self._columns_of_tasks,
            "data": script_json(self._data()),
            **own_files(
                script=asset("site.js", __package__),
                style=asset("style.css") + asset("site.css", __package__),
            ),
            "version": __version__,
            "written": date.today().isoformat(),
            "citation": citation(board, self.rows)["line"],
        }  # fmt: skip
        return str(environment().from_string(asset("site.html.j2", __package__)).render(**content))

    @property
    def _columns_of_tasks(self) -> list[str]:
        """The tasks that have a column each: of a single one, the score is that of the row."""
        return list(self.board.banks) if len(self.board.banks) > 1 else []

    def _notes(self) -> list[str]:
        """Return the sentences at the head of the page: what scores are, and how to read them."""
        board, placed = self.board, self.state.placed
        estimated = sum(place.row.estimated for place in placed)
        sampled = sum(place.row.has_sampled_answers for place in placed)
        better = "higher" if board.scale.higher_is_better else "lower"
        notes = [f"Score: {_score_in_words(board)}; {better} is better.", *_metrics_in_words(board)]
        if estimated:
            notes.append(
                f"≈ marks {plural(estimated, 'estimate')} from some of the documents; all other "
                "rows are full results."
            )
        if sampled:
            notes.append(
                f"The full results of {plural(sampled, 'model')} are sampled answers: a score is "
                "that of the draws, and its interval is for the model's expected score."
            )
        percents = {exact_percent(place.row.confidence) for place in placed if place.row.confidence}
        if estimated or sampled:
            notes.append(
                f"Intervals are at {' or '.join(sorted(percents))}. Where they leave the order "
                "open, a row shows a range of ranks."
            )
        if missing := unknown_scoring(board):
            notes.append(f"{missing[0].upper()}{missing[1:]}.")
        notes += _drawn_otherwise(self.state)
        notes += _exposure_in_words(board, self.times_shown)
        return notes[:_MAX_NOTES]

    def _data(self) -> dict[str, Any]:
        """Return the data from which the page's script draws."""
        board, placed = self.board, self.state.placed
        ends = [end for place in placed for end in (place.row.low, place.row.high)]
        # Columns of the operator's file; a link is no column, but part of the model's name.
        columns = dict.fromkeys(
            column
            for model_facts in self.facts.values()
            for column in model_facts
            if column != "link"
        )
        return {
            "tasks": self._columns_of_tasks,
            "higher": board.scale.higher_is_better,
            "taskHigher": [bank.scale.higher_is_better for bank in board.banks.values()],
            "ends": [min(ends), max(ends)] if ends else [0, 1],
            "version": __version__,
            "facts": [visible_line(column) for column in columns],
            "rows": [self._cells(place, columns) for place in placed],
        }

    def _cells(self, place: Placed, columns: Iterable[str]) -> list[Any]:
        """Return a row of the page's data, whose fields ``site.js`` names.

        Parameters
        ----------
        place : Placed
        columns : iterable of str
            Columns of the operator's file.
        """
        row = place.row
        scores = [_shown_score(row.tasks[task], row.estimated) for task in self._columns_of_tasks]
        history, facts = self.state.history[row.model], self.facts.get(row.model, {})
        past = [[entry.date, *_figures(entry), entry.made_by] for entry in history]
        return [
            place.rank, place.best, place.worst, visible_line(row.model), *_figures(row), row.date,
            scores, row.made_by, past if len(past) > 1 else [], 100 * (row.confidence or 0),
            [visible_line(facts.get(column, "")) for column in columns],
            _link(facts.get("link", "")),
            [visible_line(peer) for peer in self.copies_of.get(row.model, ())],
            "; ".join(_samples_in_words(row, self.board)),
            place.lead_in_words,
        ]  # fmt: skip


def _without_evidence(broken: Collection[BrokenEvidence], n_rows: int) -> str:
    """Say how many rows are listed apart because their evidence is broken; "" if none is.

    Raises
    ------
    RunError
        It is that of each row.
    """
    if not broken:
        return ""
    reasons = first_of(list(dict.fromkeys(bad.reason for bad in broken)), 3)
    files = first_of(list(dict.fromkeys(bad.file for bad in broken)), 3)
    why = f"{reasons}; restore {files} {FROM_A_COPY}"
    # Then a folder was probably lost; a page on which all rows are refused would accuse everybody.
    if len(broken) == n_rows:
        raise RunError(f"nothing proves any row: {why}")
    return f"{len(broken)} of {plural(n_rows, 'row')} stand apart: {why}"


def _unknown_models(facts: Mapping[str, object], rows: Sequence[BoardRow]) -> str:
    """Say which models of the operator's file are not on the board; "" if all are."""
    unknown = sorted(facts.keys() - {row.model for row in rows})
    if not unknown:
        return ""
    n_models = plural(len(unknown), "model")
    return (
        f"{FACTS}: {n_models} not on the board: {first_of(unknown, 3)}; write names as in board.csv"
    )


def _difference_of(lead: Lead, scale: Scale) -> dict[str, float]:
    """Return a lead as the score of a row minus that of the next row, with its interval.

    ``result.json`` states the differences of pairs in the same way. A lead is positive where the
    row is better; the difference has the sign of the scores.

    Examples
    --------
    >>> _difference_of(Lead(0.2, 0.1, 0.4), Scale(0, 1, higher_is_better=False))
    {'difference': -0.2, 'low': -0.4, 'high': -0.1}
    """
    sign = 1.0 if scale.higher_is_better else -1.0
    low, gap, high = sorted(sign * end + 0.0 for end in lead)
    return {"difference": gap, "low": low, "high": high}


def _public(row: BoardRow) -> dict[str, object]:
    """Return what the site says of a row: all but the items that its model was asked."""
    return {name: value for name, value in row.to_dict().items() if name != "asked"}


def citation(board: Board, rows: Sequence[BoardRow]) -> dict[str, object]:
    """Return what names a published board: version, date, hash, and a line to cite it by.

    The version is the number of rows in the ledger, which only grows; the hash is that of the
    ledger's end, and covers every row before it.
    """
    head, dated = board.ledger.head(), max((row.date for row in rows), default="")
    line = (
        f"{board.rules.name}, version {len(rows)}"
        + (f" of {dated}" if dated else "")
        + f", ledger sha256 {head or 'empty'}. Made with lm-eval-ccat {__version__}."
    )
    return {"version": len(rows), "date": dated, "sha256": head, "line": line}


def facts_of_models(board: Board) -> dict[str, dict[str, str]]:
    """Return by model the facts that the board's operator states in ``models.csv``.

    It is empty without the file, which has a column ``model``, a column ``link`` if wanted (the
    address that the model's name leads to), and others, such as ``size``, ``licence``, ``date`` or
    ``base``, by which the page can be filtered.

    Raises
    ------
    RunError
        The file cannot be read or has no column ``model``, or a row lacks its model, or two rows
        have the same one.
    """
    path = board.path / FACTS
    if not path.exists():
        return {}
    try:
        # Spreadsheets begin a file with a byte order mark, which utf-8-sig takes away.
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream)
            if "model" not in (reader.fieldnames or ()):
                raise RunError(f"{path}: no column 'model'; write one row per model")
            facts: dict[str, dict[str, str]] = {}
            for line in reader:
                # Names are copied from board.csv, which guards formulas by an apostrophe.
                model = _without_formula_guard(line["model"] or "")
                place = f"{path}, line {reader.line_num}"
                if not model:
                    raise RunError(f"{place}: no model; name the one that the row is of")
                # Two rows of one model may contradict each other.
                if model in facts:
                    raise RunError(f"{place}: another row of {model}; keep one of them")
                # A row may have more cells than the head, under None, or fewer, which are None.
                facts[model] = {
                    name: value.strip()
                    for name, value in line.items()
                    if name not in (None, "model") and isinstance(value, str) and value.strip()
                }
            return facts
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RunError(f"{path}: cannot be read ({error}); save it as CSV in UTF-8") from error


def _csv(lines: Iterable[Sequence[Any]]) -> str:
    """Write lines as CSV, no cell of which a spreadsheet computes."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(map(_quoted, line) for line in lines)
    return stream.getvalue()


def _quoted(cell: Any) -> Any:
    """Put an apostrophe before a text that a spreadsheet would compute, or that has one.

    Examples
    --------
    >>> [_quoted(cell) for cell in ("=1+1", "a=1", "'a", -0.5)]
    ["'=1+1", 'a=1', "''a", -0.5]
    """
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_COMPUTED) else cell


def _without_formula_guard(cell: str) -> str:
    """Return what `_quoted` was given."""
    return cell[1:] if cell[:1] == "'" and cell[1:].startswith(_COMPUTED) else cell


# -- parts of the page ----------------------------------------------------------------------------


def _figures(row: BoardRow) -> list[Any]:
    """Return whether a row is an estimate, its score and interval, and its numbers of documents."""
    ends = _short(row.score), _short(row.low), _short(row.high)
    return [int(row.estimated), *ends, row.items, row.documents]


def _shown_score(task_score: TaskScore, estimated: bool) -> Any:
    """Return a full result as a number, an estimate with the ends of its interval."""
    if not estimated:
        return _short(task_score.score)
    return [_short(task_score.score), _short(task_score.low), _short(task_score.high)]


def _samples_in_words(row: BoardRow, board: Board) -> Iterator[str]:
    """Say of each task what score the items drawn at random show, whatever the bank is worth."""
    for task, task_score in row.tasks.items():
        if task_score.sample is not None:
            estimate, error, n = task_score.sample
            estimate = on_scale(estimate, board.banks[task].scale)
            items = f"{plural(round(n), 'random item')} of {task}"
            yield f"{items}, {WHATEVER_THE_BANK}: {estimate:.4g} ± {error:.2g}"


def _link(text: str) -> str:
    """Return a link that the page may have; "" for any that is no web address."""
    return text if text.startswith(("https://", "http://")) else ""


def _drawn_otherwise(state: BoardStanding) -> list[str]:
    """Return a note on models that drew their answers otherwise than most; none if all drew alike.

    Only rows that state their configuration count.
    """
    # Temperature and do_sample by model; "" if its answers are greedy, so that neither is stated.
    drawing_of = {
        place.row.model: ", ".join(
            dict.fromkeys(
                f"{key} {score.configuration[key]}"
                for score in place.row.tasks.values()
                for key in ("temperature", "do_sample")
                if key in score.configuration
            )
        )
        for place in state.placed
        if all(score.configuration for score in place.row.tasks.values())
    }
    counts = Counter(drawing_of.values())
    if len(counts) < 2:
        return []
    [(usual, _)] = counts.most_common(1)
    models = [
        f"{model} ({drawing or 'greedy'})"
        for model, drawing in drawing_of.items()
        if drawing != usual
    ]
    return [
        f"Answers of {some(models, 8)} are drawn otherwise than those of most rows "
        f"({usual or 'greedy'}), so chance is part of their differences."
    ]


def _short(value: float) -> float:
    """Return a figure with so many digits as the data of the page have."""
    return float(f"{value:.{_DIGITS}g}")


def _exposure_in_words(board: Board, times_shown: Mapping[str, Mapping[Any, int]]) -> Iterator[str]:
    """Say of each task to how many models its documents were shown."""
    for task, bank in board.banks.items():
        # Rows made by earlier banks may have documents that the present one lacks.
        times_of = times_shown.get(task, {})
        counts = [times_of[doc_id] for doc_id in bank.doc_ids if doc_id in times_of]
        if counts:
            of_task = f" of {task}" if len(board.banks) > 1 else ""
            yield (
                f"Of {bank.n_items:,} documents{of_task}, the most used was shown to "
                f"{plural(max(counts), 'model')}, and {bank.n_items - len(counts):,} to none."
            )


def _score_in_words(board: Board) -> str:
    """Say what the score of a row is the mean of."""
    if len(board.banks) == 1:
        [(task, bank)] = board.banks.items()
        return f"mean {bank.metric} over the {bank.n_items:,} documents of {task}"
    total = sum(bank.n_items for bank in board.banks.values())
    weights = "equal weights" if board.rules.weights == "equal" else "weights by documents"
    return f"average over {len(board.banks)} tasks ({total:,} documents, {weights})"


def _metrics_in_words(board: Board) -> list[str]:
    """Say, of several tasks, by which metric and on which scale the column of each one is."""
    if len(board.banks) == 1:
        return []
    tasks_by_metric = grouped(
        (f"mean {bank.metric} ({bank.scale.describe()})", task)
        for task, bank in board.banks.items()
    )
    texts = [f"{first_of(tasks, 3)}: {metric}" for metric, tasks in tasks_by_metric.items()]
    scales = {bank.scale for bank in board.banks.values()}
    same = " Each is put on 0 to 1, with 1 the best, before they are averaged."
    return ["; ".join(texts) + "." + same * (len(scales) > 1)]
