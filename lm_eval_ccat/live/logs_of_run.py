"""The logs that a run leaves of each model: whether they say what its journal says."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Any

from ..content import RESULT, RankingContent, document_of
from ..errors import CcatError
from ..files import safe_name
from ..grouping import grouped
from ..records import Answered, Record, Unrated
from ..runs.directory import read_object
from ..scores.readers.lm_eval import latest_scores
from ..scores.readers.logged_runs import LoggedRun, every_run, results_files
from ..scores.readers.samples import sound_rows
from ..scores.reading import Logged, Query
from .stored import StoredRanking, rankings_in

#: Name of the outcome of an answer that is scored by one metric alone. Of others it has None in
#: place of a score, which says only that the document was answered.
_ONLY_OUTCOME = ""


#: By task and outcome, and then by document: the scores of all its answers, on the metric's own
#: scale. A run may have a million answers, hence no object for each.
_Scores = dict[tuple[Any, str], dict[Any, tuple[float | None, ...]]]


class JournalAnswers:
    """The scores and the texts of a run's answers, noted while its journal is read."""

    def __init__(self) -> None:
        self._scores: dict[str, _Scores] = {}
        # Hashes of the texts of each answer: a million texts would take gigabytes, and as many sets
        # hundreds of megabytes.
        self._texts: dict[tuple[str, Any, Any], tuple[int, ...]] = {}

    def noted(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield the records of a journal, and note the answers among them."""
        for record in records:
            if isinstance(record, Answered) and not isinstance(record, Unrated):
                self._note(record)
            yield record

    def _note(self, answer: Answered) -> None:
        # The journal states raw scores by name if there are several outcomes.
        by_outcome = dict(answer.raw) if isinstance(answer.raw, Mapping) else {}
        by_outcome[_ONLY_OUTCOME] = None if by_outcome else answer.raw
        task, doc_id, *_ = answer.item
        scores = self._scores.setdefault(answer.model, {})
        if hashes := tuple(map(hash, _texts(answer.responses))):
            key = answer.model, task, doc_id
            self._texts[key] = self._texts.get(key, ()) + hashes
        for outcome, raw in by_outcome.items():
            by_document = scores.setdefault((task, outcome), {})
            by_document[doc_id] = (*by_document.get(doc_id, ()), raw)

    def contradictions_in_logs(
        self, folder: Path, result: RankingContent, tolerance: float
    ) -> list[str]:
        """Return a sentence on each place where the logs of a run's models contradict its journal.

        Scores, texts of answers and estimates are compared.

        Parameters
        ----------
        folder : Path
            A run directory.
        result : dict
            What its result is.
        tolerance : float
            Difference up to which figures count as equal.
        """
        # Logs hold scores of single outcomes, and none of a weighted mean.
        rankings = [
            ranking for ranking in rankings_in(folder / RESULT, result) if not ranking.terms
        ]
        texts: list[str] = []
        for model, scores in self._scores.items():
            logs = folder / safe_name(model)
            if logs.is_dir():
                runs_by_task = grouped((run.task, run) for run in every_run(logs))
                for ranking in rankings:
                    if runs := runs_by_task.get(ranking.outcome.task or ""):
                        texts += _other_scores(logs, model, ranking, runs, scores, tolerance)
                for runs in runs_by_task.values():
                    texts += _other_texts(logs, model, runs, self._texts)
                texts += _other_estimates(logs, model, rankings, tolerance)
        return texts


def _other_scores(
    logs: Path,
    model: str,
    ranking: StoredRanking,
    runs: Sequence[LoggedRun],
    answers: _Scores,
    tolerance: float,
) -> Iterator[str]:
    """Yield a sentence on the first document whose score in logs is not that of the journal.

    Parameters
    ----------
    logs : Path
        The folder of the model's logs.
    model : str
    ranking : StoredRanking
        The result of the run by one outcome.
    runs : sequence of LoggedRun
        Those of its task in the logs.
    answers : mapping
        Raw scores in the journal, by outcome and document, in the order in which they came.
    tolerance : float
        Largest difference of scores on [0, 1] that counts as none.
    """
    outcome, scale = ranking.outcome, ranking.scale
    try:
        raw_scores = latest_scores(logs, runs, outcome.query(Query()))
        logged = {doc_id: scale.normalise_number(raw) for doc_id, raw in raw_scores.items()}
    # The logs may lack a metric that only the run computes.
    except CcatError:
        return
    journal_scores = _scores_by_document(answers, outcome)
    if not journal_scores:
        return
    prefix = f"{logs.name}: the samples of {outcome.name}"
    for doc_id, score in logged.items():
        if doc_id not in journal_scores:
            yield f"{prefix} have document {doc_id!r}, which the journal has not"
            return
        # A log has the mean of those answers that had come when it was written, so each mean of the
        # first answers is right.
        sums = accumulate(map(scale.normalise_number, journal_scores[doc_id]))
        means = [total / n for n, total in enumerate(sums, start=1)]
        close = (math.isclose(mean, score, rel_tol=tolerance, abs_tol=tolerance) for mean in means)
        # Of a document whose answers have no score in the journal nothing is said.
        if means and not any(close):
            raw = raw_scores[doc_id]
            yield f"{prefix} give document {doc_id!r} {raw:.6g}, the journal {means[-1]:.6g}"
            return
    block = ranking.content["models"].get(model)
    items = map(document_of, block["items"] if block and block.get("items") else ())
    lacking = journal_scores.keys() - logged.keys()
    if missing := [doc_id for doc_id in items if doc_id in lacking]:
        yield f"{prefix} lack document {missing[0]!r}, which the result counts"


def _scores_by_document(answers: _Scores, outcome: Logged) -> dict[Any, list[float]]:
    """Return one model's raw scores on an outcome, by document, in the order in which they came.

    A document whose answers have none has an empty list.
    """
    names = {name for task, name in answers if task == outcome.task}
    full_name = f"{outcome.metric},{outcome.filter or 'none'}"
    # The run may name an outcome by its metric alone.
    name = full_name if full_name in names else outcome.metric
    by_document: dict[Any, list[float]] = {}
    for name_of_scores in (_ONLY_OUTCOME, name):
        for doc_id, scores in answers.get((outcome.task, name_of_scores), {}).items():
            known = (score for score in scores if score is not None)
            by_document.setdefault(doc_id, []).extend(known)
    return by_document


def _other_texts(
    logs: Path,
    model: str,
    runs: Sequence[LoggedRun],
    hashes_of: Mapping[tuple[str, Any, Any], tuple[int, ...]],
) -> Iterator[str]:
    """Yield the first document to which the logs of a model have an answer of another text."""
    for run in sorted(runs, key=lambda run: run.date):
        for row in sound_rows(run.samples):
            doc_id, responses = row["doc_id"], row.get("resps")
            hashes = hashes_of.get((model, run.task, doc_id))
            logged_texts = _texts(responses if isinstance(responses, list) else ())
            if hashes and any(hash(text) not in hashes for text in logged_texts):
                prefix = f"{logs.name}: the samples of {run.task}"
                yield f"{prefix} have another answer to document {doc_id!r} than the journal"
                return


def _texts(responses: Any) -> Iterator[str]:
    """Yield the texts among the responses of an answer; of likelihoods there are none."""
    for response in responses:
        if isinstance(response, list | tuple) and all(isinstance(text, str) for text in response):
            yield from response


def _other_estimates(
    logs: Path, model: str, rankings: Sequence[StoredRanking], tolerance: float
) -> Iterator[str]:
    """Yield the estimates in a model's latest results file that the run's result contradicts."""
    files = sorted(results_files(logs), key=lambda file: file.name)
    stored: list[StoredRanking] = []
    with suppress(CcatError):  # full results state no estimate
        stored = rankings_in(files[-1], read_object(files[-1]), model) if files else []
    for ranking in stored:
        for peer in (peer for peer in rankings if peer.outcome == ranking.outcome):
            # Intervals of parts of a run hold for other looks than those of the whole.
            logged = ranking.content["models"][model]["estimate"]
            # A run that ranks the model no more, as one that left, has no estimate of it.
            block = peer.content["models"].get(model)
            value = math.nan if block is None else block["estimate"]
            if not math.isclose(logged, value, rel_tol=tolerance, abs_tol=tolerance):
                figure = "none" if block is None else value
                yield f"{files[-1].name} of {model}: estimate {logged}, the run's {figure}"
