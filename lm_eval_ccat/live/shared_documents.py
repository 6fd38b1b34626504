"""Two models' scores by document, and the settings in which they differ."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..bank.settings import GREEDY, SAMPLED, Sampling, compare_scorers
from ..errors import UnknownScoresError, UsageError
from ..methods.belief import BENCHMARK, POPULATION
from ..methods.policy import Mask
from ..methods.sample.repeats import RepeatSums
from ..metrics.scale import Floats, Scale
from ..ranker.clusters import Clusters, fewest_clusters
from ..ranker.difference import Difference, compare_scores
from ..runs.tally import ScoreRange
from ..scores import ScoreTable
from ..scores.readers.comparable_runs import COMPARED
from ..scores.reading import Logged
from ..shown import plural, some
from .comparison import Compared, Gate, is_exact
from .losses import losses_of, n_documents_of
from .result import warnings_of_equal_scores
from .scored import documents_of, runs_by_model, sampling_of
from .sides import NO_VALUE, SIDES, Fields, fields_of, values_of_field

#: Settings that `differing_settings` leaves out of its loop: it compares the scorer before, and
#: `Scoring` compares the task's version.
_NOT_IN_LOOP = ("scorer", "task_version")


@dataclass(frozen=True)
class Grouping:
    """Fields of documents by which a comparison groups them; falsy if there are none.

    Attributes
    ----------
    group_by, cluster : str or None
        The field to group by, and the field whose equal values form a cluster.
    items : mapping or None
        Fields that the documents in the logs lack.
    """

    group_by: str | None = None
    cluster: str | None = None
    items: Fields | None = None

    def __bool__(self) -> bool:
        return bool(self.group_by or self.cluster)


@dataclass(frozen=True)
class LoggedSide:
    """A side of a comparison whose scores are known document by document.

    Attributes
    ----------
    role : str
        "baseline" or "candidate".
    name : str
        The model's name in the table.
    table : ScoreTable
        Scores of that model, and perhaps of others.
    source : ScoreTable or path
        What it was read from; logs tell which documents a limit left out.
    """

    role: str
    name: str
    table: ScoreTable
    source: Any

    @cached_property
    def scores(self) -> ScoreTable:
        """The scores of the model alone."""
        return self.table.select([self.name])

    @cached_property
    def sampling(self) -> Sampling:
        """How the model's answers were drawn."""
        return sampling_of(self.table, self.name)


@dataclass(frozen=True)
class SharedDocuments:
    """Scores of baseline and candidate on the documents that both were asked.

    Attributes
    ----------
    outcome : Logged
    scale : Scale
    ids : list
        The doc_ids of the documents.
    baseline, candidate : ndarray of shape (n_documents,)
        On [0, 1], higher is better; repeats of a document are averaged. NaN where a side was asked,
        as far as is known, and has no score.
    answers : (ndarray, ndarray) or None
        Scores of all answers of both, of shape (n_answers, n_documents), where a side has repeats.
    sampled : bool
        Whether answers are draws. Nobody knows how much of the differences of single answers is
        noise: it may be all of it.
    """

    outcome: Logged
    scale: Scale
    ids: list[Any]
    baseline: Floats
    candidate: Floats
    answers: tuple[Floats, Floats] | None
    sampled: bool

    @classmethod
    def of(cls, sides: Sequence[LoggedSide], warnings: list[str]) -> SharedDocuments:
        """Match the documents of baseline and candidate.

        What is left out or unknown, and what the sides differ in, goes to `warnings`.

        Raises
        ------
        UnknownScoresError
            The sides have no document in common.
        UsageError
            The sides were scored by different scorers; see `differing_settings`.
        """
        baseline_table, candidate_table = (side.table for side in sides)
        metric = baseline_table.metric  # of both, as they were read by one
        warnings += [
            *_doubts_of_tables(sides),
            *differing_settings(baseline_table.settings, candidate_table.settings, metric),
            *_one_side_is_sampled(sides),
        ]
        outcome = Logged(
            baseline_table.task or candidate_table.task,
            metric,
            baseline_table.filter or candidate_table.filter,
        )
        scored = [_scored(side, warnings) for side in sides]
        ids = _in_common(scored, sides, metric, warnings)
        warnings += _suspiciously_alike(scored, ids, sides, outcome)
        repeated = any(side.scores.has_repeats for side in sides)
        if repeated:
            warnings += _unequal_answers(ids, sides)
        asked = [_documents_asked(side, outcome.task) for side in sides]
        size = n_documents_of([side.source for side in sides], outcome.task)
        # A document without a score may be one that the model failed on: it counts as any score.
        tabulated = [*baseline_table.doc_ids, *candidate_table.doc_ids]
        documents = range(size) if size else tabulated
        ids += _documents_without_score(scored, asked, documents, warnings)
        baseline, candidate = (
            np.array([side[doc_id].score if doc_id in side else math.nan for doc_id in ids])
            for side in scored
        )
        answers = None
        if repeated:
            answers = _answers_to(ids, sides[0].scores), _answers_to(ids, sides[1].scores)
        # Several answers to a document are draws, whatever the settings say.
        sampled = repeated or any(side.sampling.how == SAMPLED for side in sides)
        return cls(outcome, baseline_table.scale, ids, baseline, candidate, answers, sampled)

    def compared(
        self, gate: Gate, grouping: Grouping, sources: Sequence[Any], warnings: list[str]
    ) -> Compared:
        """Compare all documents, as the question of `gate` has it and as the other one has it.

        The questions are "benchmark" and "population". Groups of documents are compared by that of
        `gate` alone. The fields to group or cluster by are read from `sources`, the logs of the
        sides. A warning is added where clusters are too few to tell anything.
        """
        all_documents = np.ones(len(self.ids), dtype=bool)
        fields = fields_of(grouping.items, sources, self.outcome.task) if grouping else {}
        clusters = self._clusters(fields, grouping.cluster, warnings) if grouping.cluster else None
        rows_of_groups: dict[str, Mask] = {}
        if grouping.group_by:
            values = values_of_field(fields, grouping.group_by, self.ids)
            rows_of_groups = {value: values == value for value in sorted(set(values.tolist()))}
        groups = {
            value: self._difference(gate, gate.question, rows, clusters)
            for value, rows in rows_of_groups.items()
        }
        # Documents of a cluster resemble each other and tell less of the population; the question
        # "benchmark" is about the documents themselves.
        if clusters is not None and gate.question == POPULATION:
            for group, rows in {"": all_documents, **rows_of_groups}.items():
                warnings += _too_few_clusters(Clusters.of(clusters[rows]), gate.confidence, group)
        other_question = BENCHMARK if gate.question == POPULATION else POPULATION
        return Compared(
            self.outcome.task, self.outcome.metric, self.outcome.filter, self.scale.describe(),
            self._difference(gate, gate.question, all_documents, clusters), groups,
            question=gate.question, sampled=self.sampled,
            other_question=self._difference(gate, other_question, all_documents, clusters),
            higher_is_better=self.scale.higher_is_better,
            losses=losses_of(self.ids, self.baseline, self.candidate, self.scale),
        )  # fmt: skip

    def _clusters(self, fields: Fields, name: str, warnings: list[str]) -> NDArray[np.intp]:
        """Return the cluster of each document; one without the field is a cluster of its own."""
        values = values_of_field(fields, name, self.ids)
        clusters, alone = np.unique(values, return_inverse=True)[1], values == NO_VALUE
        clusters[alone] = len(values) + np.arange(alone.sum())
        if alone.any():
            warnings.append(
                f"{plural(int(alone.sum()), 'document')} without {name!r}: each counts as a "
                "cluster of its own"
            )
        return clusters

    def _difference(
        self, gate: Gate, question: str, rows: Mask, clusters: NDArray[Any] | None
    ) -> Difference:
        """Compare some of the documents; only the question "population" regards clusters."""
        known = self.baseline[rows], self.candidate[rows]

        def difference_of(*scores: Floats) -> Difference:
            """Compare scores of baseline and candidate in which none is missing."""
            repeats = None
            if self.answers is not None:
                answers = (
                    np.where(np.isnan(known_scores), fill, side_answers[:, rows])
                    for known_scores, fill, side_answers in zip(known, scores, self.answers)
                )
                repeats = RepeatSums.of_answers(*answers).figures()
            return compare_scores(
                *scores, scale=self.scale,
                clusters=None if clusters is None or question != POPULATION else clusters[rows],
                exact=is_exact(question, self.sampled),
                margin=gate.margin, confidence=gate.confidence,
                repeats=repeats, these_items=question == BENCHMARK,
            )  # fmt: skip

        if not (missing := int(np.isnan(known[0] + known[1]).sum())):
            return difference_of(*known)
        likely, *extremes = (difference_of(*scores) for scores in _fillings(*known))
        return likely.with_missing(extremes, missing, self.scale, gate.margin)


class _DocumentScore(NamedTuple):
    """The score of a document, and the hash of its text where one is known."""

    score: float
    doc_hash: str | None


#: By doc_id.
_Scored = dict[Any, _DocumentScore]


def _one_side_is_sampled(sides: Sequence[LoggedSide]) -> Iterator[str]:
    """Yield a warning if the answers of one side are draws and those of the other are not."""
    # Where both sides are drawn, chance is in both and needs no word.
    if {side.sampling.how for side in sides} == {SAMPLED, GREEDY}:
        ways = (
            f"{side.name} is {side.sampling.how} (temperature {side.sampling.temperature})"
            for side in sides
        )
        yield (
            f"{' and '.join(ways)}: a sampled answer is one draw, so chance is part of the "
            "difference"
        )


def _suspiciously_alike(
    scored: Sequence[_Scored], ids: Sequence[Any], sides: Sequence[LoggedSide], outcome: Logged
) -> list[str]:
    """Return warnings if all scores of a side on the common documents are 0, or of both are 1."""
    scale, ranges = sides[0].table.scale, dict[str, ScoreRange]()
    for side, score_of in zip(sides, scored):
        scores = np.array([score_of[doc_id].score for doc_id in ids])
        low, high, raw = float(scores.min()), float(scores.max()), float(scale.restore(scores[0]))
        ranges[side.name] = ScoreRange(len(scores), low, high, raw)
    return warnings_of_equal_scores(ranges, outcome.name)


def _doubts_of_tables(sides: Sequence[LoggedSide]) -> list[str]:
    """Return the warnings of both sides' scores; one that they do not share names its side."""
    shared = set.intersection(*(set(side.table.warnings) for side in sides))
    doubts = (
        text if text in shared else f"{side.role}: {text}"
        for side in sides
        for text in side.table.warnings
    )
    return list(dict.fromkeys(doubts))


def _scored(side: LoggedSide, warnings: list[str]) -> _Scored:
    """Return the documents of which a side has a score; several configurations are averaged."""
    table = side.scores
    # Rows that are repeats of one configuration are the model's own answers.
    if len(table.row_config) > 1 and not table.has_repeats:
        configs = [config or "the task's own" for config in table.row_config]
        warnings.append(
            f"the {side.role} is of {len(configs)} configs "
            f"({some(configs, 3)}): their mean on each document is compared"
        )
    hashes = table.doc_hashes or (None,) * table.n_items
    rows = zip(table.doc_ids, table.model_scores()[0], hashes)
    return {
        doc_id: _DocumentScore(score, doc_hash)
        for doc_id, score, doc_hash in rows
        if np.isfinite(score)
    }


def _in_common(
    scored: Sequence[_Scored], sides: Sequence[LoggedSide], metric: str, warnings: list[str]
) -> list[Any]:
    """Return the documents of which both sides have a score; changed texts are left out.

    Raises
    ------
    UnknownScoresError
        There are none.
    """
    first, second = scored
    shared = [doc_id for doc_id in first if doc_id in second]
    # A hash that is not known is no other text.
    hashes = {doc_id: {first[doc_id].doc_hash, second[doc_id].doc_hash} for doc_id in shared}
    ids = [doc_id for doc_id in shared if len(hashes[doc_id] - {None}) < 2]
    if changed := len(shared) - len(ids):
        warnings.append(
            f"{plural(changed, 'document')} left out: the same doc_id, but different text"
        )
    if not ids:
        held = (some([repr(doc_id) for doc_id in side], 3) or "none" for side in scored)
        first_ids = "; ".join(f"the {role} has {ids}" for role, ids in zip(SIDES, held))
        raise UnknownScoresError(
            f"{' and '.join(side.name for side in sides)} have no document of {metric} in common: "
            f"{warnings[-1] if changed else first_ids}"
        )
    return ids


def _unequal_answers(ids: list[Any], sides: Sequence[LoggedSide]) -> Iterator[str]:
    """Yield a warning if one side has more answers to the documents than the other."""
    count, other_count = (int(np.isfinite(_answers_to(ids, side.scores)).sum()) for side in sides)
    if count != other_count:
        yield (
            f"{sides[0].name} has {plural(count, 'answer')} to these documents and {sides[1].name} "
            f"{other_count:,}: on these documents the interval is that of as many answers "
            "to each as both have"
        )


def _too_few_clusters(clusters: Clusters, confidence: float, group: str) -> list[str]:
    """Return a warning if the clusters of documents, all or a group's, are too few to tell much."""
    fewest = fewest_clusters(confidence)
    if clusters.effective >= fewest:
        return []
    return [
        f"{group and f'{group}: '}{plural(len(clusters.sizes), 'cluster')} of documents tell as "
        f"much as {clusters.effective:.1f} of equal size, and fewer than {fewest:.1f} tell "
        "nothing about documents like these: compare documents of more clusters, or decide about "
        "these documents (--question benchmark)"
    ]


def _documents_without_score(
    scored: Sequence[Mapping[Any, Any]],
    asked: Sequence[Container[Any]],
    documents: Iterable[Any],
    warnings: list[str],
) -> list[Any]:
    """Return the documents that both sides were asked and not both have a score of; warn of them.

    Scores that are left out because the other side was not asked are warned of, too.

    Parameters
    ----------
    scored : (mapping, mapping)
        By doc_id; only the keys count, which are the documents that a side has a score of.
    asked : (container, container)
        As `_documents_asked` has them.
    documents : iterable
        The doc_ids of the task, if logs state how many there are, or those of the tables.
    warnings : list of str
    """
    unknown: list[Any] = []
    for role, asked_by_side, side, peer in zip(SIDES, asked, scored, scored[::-1]):
        alone = [doc_id for doc_id in peer if doc_id not in side]
        unscored = [doc_id for doc_id in alone if doc_id in asked_by_side]
        if count := len(alone) - len(unscored):
            warnings.append(f"{plural(count, 'score')} left out: the {role} was not asked these")
        if unscored:
            warnings.append(_lacking_a_score(f"the {role} lacks", unscored))
        unknown += unscored
    first, second = scored
    lost = [
        doc_id
        for doc_id in dict.fromkeys(documents)
        if not (doc_id in first or doc_id in second)
        and all(doc_id in asked_by_side for asked_by_side in asked)
    ]
    if lost:
        warnings.append(_lacking_a_score("both sides lack", lost))
    return unknown + lost


def _lacking_a_score(who_lacks: str, doc_ids: Sequence[Any]) -> str:
    """Return a warning of documents without a score, of one side or of both (`who_lacks`)."""
    return (
        f"{who_lacks} a score on {plural(len(doc_ids), 'document')} (doc_id {some(doc_ids, 3)}): "
        "the interval allows for any. Score them, or leave out of both sides what was not asked"
    )


class _AllDocuments(Container[Any]):
    """All documents of a task."""

    def __contains__(self, doc_id: object) -> bool:
        return True


def _documents_asked(side: LoggedSide, task: str | None) -> Container[Any]:
    """Return the documents that a model was asked; it failed on those that it has no score of.

    Logs say so. A table that leaves out a document may hide a failure, but what lies before its
    first number or after its last was not asked, as with another limit.
    """
    # Documents that are called by texts have no order, so no limit can have left some out.
    doc_ids = [doc_id for doc_id in side.table.doc_ids if isinstance(doc_id, int)]
    if len(doc_ids) < side.table.n_items:
        return _AllDocuments()
    # Without logs only the numbers tell.
    if not (by_model := runs_by_model(side.source, task)):
        return range(min(doc_ids), max(doc_ids) + 1)
    asked: set[Any] = set()
    for run in by_model.get(side.name, ()):
        # A table takes no scores from it.
        if run.adaptive:
            continue
        # Its results file does not say how many documents it was asked.
        if run.counts is None:
            return _AllDocuments()
        # A full run, or one with a limit, was asked the first documents.
        if run.why_not_full().usable:
            asked |= set(range(int(run.counts.effective)))
            continue
        # Which ones a user named, only the rows tell. Rows that a results file counts and that are
        # not here may be of any document.
        named_documents = documents_of(run)
        if len(named_documents) < run.counts.effective:
            return _AllDocuments()
        asked |= named_documents
    return asked or _AllDocuments()


def _fillings(baseline: Floats, candidate: Floats) -> Iterator[tuple[Floats, Floats]]:
    """Yield the scores three times: missing ones as is likely, at the worst and at the best.

    Likely is the mean difference, as far as the scale allows it. The worst is the lowest score of
    the candidate, and the highest of the baseline.

    Examples
    --------
    >>> for scores in _fillings(np.array([0.5, 0.9]), np.array([0.75, np.nan])):
    ...     print(scores[1].tolist())
    [0.75, 1.0]
    [0.75, 0.0]
    [0.75, 1.0]
    """
    known = np.isfinite(baseline + candidate)
    means = [float(side[known].mean()) if known.any() else 0.5 for side in (baseline, candidate)]
    gap = means[1] - means[0]
    # The better model is taken to be better on the missing document by as much as elsewhere.
    likely = (
        np.nan_to_num(np.clip(candidate - gap, 0.0, 1.0), nan=means[0]),
        np.nan_to_num(np.clip(baseline + gap, 0.0, 1.0), nan=means[1]),
    )
    for first, second in (likely, (1.0, 0.0), (0.0, 1.0)):
        yield (
            np.where(np.isnan(baseline), first, baseline),
            np.where(np.isnan(candidate), second, candidate),
        )


def _answers_to(ids: Sequence[Any], table: ScoreTable) -> Floats:
    """Return the scores of all answers of a table's one model to some documents; NaN for none."""
    column_of = {doc_id: column for column, doc_id in enumerate(table.doc_ids)}
    answers = np.full((len(table.scores), len(ids)), math.nan)
    for n, doc_id in enumerate(ids):
        if doc_id in column_of:
            answers[:, n] = table.scores[:, column_of[doc_id]]
    return answers


def differing_settings(
    baseline_settings: Mapping[str, Any], candidate_settings: Mapping[str, Any], metric: str
) -> list[str]:
    """Return warnings of settings in which the two sides differ, and of a scorer of one side alone.

    What one side does not state is not compared.

    Raises
    ------
    UsageError
        Another judge, encoder or checkpoint scored the candidate, or sacrebleu with other settings,
        so not only the models differ.
    """
    # `compare_scorers` speaks of a bank and a run; here these are the baseline and the candidate.
    refusals, differences = (
        [
            text.replace("the bank", "the baseline").replace("the run", "the candidate")
            for text in texts
        ]
        for texts in compare_scorers(
            baseline_settings.get("scorer"), candidate_settings.get("scorer"), metric
        )
    )
    if refusals:
        raise UsageError(
            f"the two sides were not scored alike: {'; '.join(refusals)}; score both with one "
            "scorer"
        )
    stated_by_both = baseline_settings.keys() & candidate_settings.keys()
    for key in (key for key in COMPARED if key in stated_by_both and key not in _NOT_IN_LOOP):
        baseline, candidate = baseline_settings[key], candidate_settings[key]
        if baseline != candidate:
            differences.append(
                f"{key} differs: {baseline!r:.60} and {candidate!r:.60}; part of the difference "
                "may come from that"
            )
    return differences
