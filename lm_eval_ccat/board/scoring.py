"""How the full results of a board were asked and scored; those that come later must be alike."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import RunError
from ..files import replace_text
from ..grouping import grouped
from ..live.scored import LoggedDocuments, Scoring, runs_by_model
from ..runs.differences import CUT_SHORT, SCORING_CODE
from ..scores import ScoreTable
from ..scores.reading import Logged
from ..shown import first_of, one_line_per_kind
from .folder import SCORING, Board, keep_hashes

_REMEDY = "score it alike, or begin a board of it: `lm-eval-ccat board init NEW_DIR --from LOGS`"
#: End of the name of a task as it was scored before the board got its present banks.
_BEFORE = ", before"
#: How each task was scored, by its name and version, such as "mmlu 2".
Scorings = dict[str, Scoring]


def unknown_scoring(board: Board) -> str:
    """Say that no file tells how the board's full results of logs were scored; "" if one does.

    It is "" as well without such results: a table of scores does not state how it was made.

    Raises
    ------
    RunError
        If the file was changed.
    """
    rows = [line.row for line in board.ledger.lines() if line.row and not line.row.estimated]
    # Only logs state the configuration of a model.
    has_logs = any(score.configuration for row in rows for score in row.tasks.values())
    if _kept_scorings(board) or not has_logs:
        return ""
    return (
        f"{SCORING} is missing, so it is not known how the board's full results were scored, nor "
        "verified that new ones are scored alike: restore it"
    )


class ScoringComparison(NamedTuple):
    """How models of logs were asked and scored, beside a board's full results.

    Attributes
    ----------
    refused : dict of str to str
        By model, why it gets no row: it was scored otherwise, or its answers cut off otherwise.
    notes : list of str
        What else differs, by model, and what is not known.
    scorings : dict of str to Scoring
        How the board's full results are scored, to be kept; empty if it should be known and is not.
    """

    refused: dict[str, str]
    notes: list[str]
    scorings: Scorings


def other_scoring(
    board: Board, source: Path, tables: Mapping[str, ScoreTable]
) -> ScoringComparison:
    """Compare how models of logs were asked and scored with the board's full results.

    If the board does not know yet how a task is scored, it takes over how most models of the logs
    were scored. A table of scores does not state it, so nothing differs.

    Parameters
    ----------
    board : Board
    source : Path
        The logs or tables.
    tables : mapping of task to ScoreTable
        What was read from them.

    Raises
    ------
    RunError
        If the board's own file cannot be read.
    """
    known, refused = _kept_scorings(board), dict[str, str]()
    notes: dict[str, list[str]] = {}
    for task, table in tables.items():
        version = table.settings.get("task_version")
        name = task if version is None else f"{task} {version}"
        bank, runs = board.banks[task], runs_by_model(source, table.task)
        outcome = Logged(task, bank.metric, bank.filter)
        scorings = {
            model: Scoring.of(runs[model], outcome) for model in table.models if model in runs
        }
        # The first results of a task say how the board's are scored; most of them are likely right.
        if name not in known and scorings:
            known[name] = _most_common(scorings.values())
        models_of_note: dict[str, list[str]] = {}
        for model, scoring in scorings.items():
            for difference in known[name].differences(scoring, ("the board", "the source")):
                # Scores of other code, or of answers cut off more often, are no results beside the
                # board's. Differing prompts are refused elsewhere (`judge_documents`).
                if difference.change in (SCORING_CODE, CUT_SHORT):
                    refused.setdefault(model, f"{task}: {difference.text}; {_REMEDY}")
                # A difference that `accept_change` has no word for is told, and refuses nothing.
                elif not difference.change:
                    models_of_note.setdefault(difference.text, []).append(model)
        notes[task] = [f"{first_of(models, 3)}: {text}" for text, models in models_of_note.items()]
    # The board's file was lost. To write a new one from these logs would hide that.
    if missing := unknown_scoring(board):
        return ScoringComparison(refused, [*one_line_per_kind(notes), missing], {})
    return ScoringComparison(refused, one_line_per_kind(notes), known)


def _most_common(scorings: Iterable[Scoring]) -> Scoring:
    """Return how most models are scored; of as many models, the first."""
    alike = grouped((_digest(scoring), scoring) for scoring in scorings)
    return max(alike.values(), key=len)[0]


def _digest(scoring: Scoring) -> int:
    """Return a hash of how a model was scored, for comparisons within this process."""
    texts = json.dumps([scoring.settings, scoring.generation], sort_keys=True)
    return hash((texts, frozenset(scoring.documents.targets.items())))


def forget_scoring(board: Board) -> None:
    """Rename what is known, as of earlier banks; the next logs say it of the new ones."""
    # Not removed: an empty file says that it was lost (`unknown_scoring`).
    known = _kept_scorings(board)
    keep_scoring(board, {name.removesuffix(_BEFORE) + _BEFORE: known[name] for name in known})


def keep_scoring(board: Board, scorings: Scorings) -> None:
    """Write how the tasks of a board were scored."""
    content = {
        name: {
            "settings": dict(scoring.settings),
            # Of each document its doc_id and the marks of its hash and of its target.
            "targets": [[*document, mark] for document, mark in scoring.documents.targets.items()],
            "generation": dict(scoring.generation),
        }
        for name, scoring in scorings.items()
    }
    replace_text(board.path / SCORING, json.dumps(content) + "\n")
    keep_hashes(board.path, [board.path / SCORING])


def _kept_scorings(board: Board) -> Scorings:
    """Return how the tasks of a board were scored, by its file; empty without one."""
    file = board.path / SCORING
    if not file.is_file():
        return {}
    board.require_unchanged(SCORING)
    try:
        content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return {
            name: Scoring(
                LoggedDocuments(
                    texts={},
                    targets={(doc_id, mark): target for doc_id, mark, target in entry["targets"]},
                ),
                entry["settings"],
                entry["generation"],
            )
            for name, entry in content.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(f"{file}: not readable ({error}); restore it") from None
