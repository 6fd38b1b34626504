"""How the sides of a comparison were asked: their prompts must agree."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from ..content import RESULT
from ..errors import OtherScoringError, UsageError
from ..runs.differences import PROMPTS
from ..scores import ScoreTable
from ..scores.prompts import Marks, PromptComparison, Texts, compare_prompts
from ..scores.readers.logged_runs import LoggedRun
from ..scores.reading import Logged
from .scored import Scoring, runs_by_model
from .sides import prompts_in
from .stored import StoredRanking

_THE_SIDES = ("the baseline", "the candidate")
_NEITHER = "prompts unknown: neither side states them, so it is not verified that they are the same"


class AskedSide(NamedTuple):
    """How a model of a side was asked the documents of a task.

    Attributes
    ----------
    model : str
    task : str or None
    marks : mapping of doc_id to (str or None)
        What tells each document's prompt from another, such as a hash of it; None if unknown.
    source : path, ScoreTable or anything else
        Logs, or a table of them: they alone hold the prompts as texts.
    settings : mapping of str to object
        Settings of the task, such as its few-shot examples, that the side states besides its logs;
        {} if unknown.
    scoring_code : mapping of str to str
        Hash of the code that scored the answers, by the words for it; {} if unknown.
    """

    model: str
    task: str | None
    marks: Marks
    source: Any
    settings: Mapping[str, Any] = MappingProxyType({})
    scoring_code: Mapping[str, str] = MappingProxyType({})

    @classmethod
    def of(
        cls, side: ScoreTable | StoredRanking, model: str, path: Any, task: str | None
    ) -> AskedSide:
        """Return how a model of a side, read from a path, was asked a task."""
        if isinstance(side, ScoreTable):
            return cls(model, task, side.prompt_marks(model), path, side.settings)
        file = side.source_of(model)
        # A run directory has the samples of its models below it.
        logs = file.parent if file.name == RESULT else file
        settings, scoring_code = side.settings_of(model, str(task)), side.scoring_code_of(model)
        return cls(model, task, side.prompt_marks(model, str(task)), logs, settings, scoring_code)

    def runs(self, other_versions: bool = False) -> list[LoggedRun]:
        """Return the runs of the model on the task that logs hold, the latest last.

        Those of another version of the task, or number of examples, than most are left out unless
        `other_versions`.
        """
        by_model = runs_by_model(self.source, self.task, other_versions)
        # Logs of one model are its logs, whatever the user calls it.
        name = self.model if len(by_model) > 1 else next(iter(by_model), self.model)
        return by_model.get(name, [])

    def scoring(self, outcome: Logged) -> Scoring | None:
        """Return how the answers were asked for, and scored by an outcome; None if unknown."""
        runs = self.runs()
        stated = Scoring.of_settings(self.settings)
        scoring = Scoring.of(runs, outcome) if runs else stated
        if scoring is None:
            return None
        # Where both state a setting, that of the logs counts.
        stated_settings = stated.settings if stated else {}
        return scoring._replace(
            settings={**stated_settings, **scoring.settings, **self.scoring_code}
        )


def differences_in_asking(
    baseline: AskedSide, candidate: AskedSide, outcome: Logged, accepted: Collection[str]
) -> list[str]:
    """Return what differs between the asking and the scoring of two sides, or is not known of it.

    What makes the prompts is left out where the prompts themselves are compared.

    Raises
    ------
    OtherScoringError
        A prompt, a document's text or target, the task's version or scoring code, the settings of
        its metric or filter, or what cuts answers off differ, and that is not accepted.
    """
    prompts = _compared_prompts(baseline, candidate, accepted)
    texts = [f"accepted: {prompts.difference}"] if prompts.difference else []
    texts += [prompts.doubt] if prompts.doubt else []
    scoring, second_scoring = baseline.scoring(outcome), candidate.scoring(outcome)
    if scoring is None or second_scoring is None:
        return texts
    return texts + [
        difference.warning_if_accepted(accepted)
        for difference in scoring.differences(second_scoring, _THE_SIDES)
        if prompts.doubt or difference.change != PROMPTS
    ]


def _compared_prompts(
    baseline: AskedSide, candidate: AskedSide, accepted: Collection[str]
) -> PromptComparison:
    """Compare the prompts of two sides; a difference in the result is accepted.

    Raises
    ------
    UsageError
        A prompt differs, and that is not accepted; the message names one document and, where logs
        hold both texts, the first place that differs.
    """
    if not (baseline.marks or candidate.marks):
        return PromptComparison(doubt=_NEITHER)

    def texts(doc_ids: Sequence[Any]) -> Texts:
        """Return the prompts of both sides of the documents that both have as texts."""
        first, second = (
            prompts_in(side.source, side.task, {doc_id: side.marks[doc_id] for doc_id in doc_ids})
            for side in (baseline, candidate)
        )
        return {
            doc_id: (text, second[doc_id]) for doc_id, text in first.items() if doc_id in second
        }

    marks = baseline.marks, candidate.marks
    return checked_prompts(marks, _THE_SIDES, texts, accepted)


def checked_prompts(
    marks: tuple[Marks, Marks],
    names: tuple[str, str],
    texts: Callable[[Sequence[Any]], Texts],
    accepted: Collection[str],
) -> PromptComparison:
    """Return what `compare_prompts` says of two sides; refuse a difference that is not accepted.

    Raises
    ------
    UsageError
        A prompt differs, and that is not accepted.
    """
    compared = compare_prompts(*marks, names, texts)
    if compared.difference and PROMPTS not in accepted:
        raise OtherScoringError(compared.difference, "Ask both models in the same way", PROMPTS)
    return compared


def doubts_of_full_results(
    run: StoredRanking, table: ScoreTable, source: Any, model: str, logged_name: str
) -> list[str]:
    """Compare how full results were asked and scored with their run; return what is not known.

    The table and the logs that it was read from call the model `logged_name`.

    Raises
    ------
    UsageError
        Its documents, prompts or targets, its code or what cuts answers off are not the run's.
    """
    outcome = run.outcome
    documents = run.documents_of(model, str(outcome.task))
    # The same doc_id may name another document in another version of the data.
    if documents is not None and table.doc_hashes:
        if changed := documents.compare(table.doc_ids, table.doc_hashes).changed:
            raise UsageError(
                f"full results of {model}: document {changed[0]!r} has another text than in the "
                f"run; {len(changed)} documents differ (doc_hash)"
            )
    first = AskedSide.of(run, model, source, outcome.task)
    second = AskedSide.of(table, logged_name, source, outcome.task)
    try:
        texts = differences_in_asking(first, second, outcome, ())
    except OtherScoringError as error:
        raise UsageError(
            f"full results of {model}: {_about_full_results(error.difference)}. Give full results "
            "that were asked and scored as the run was"
        ) from None
    return [f"full results: {_about_full_results(text)}" for text in texts]


def _about_full_results(text: str) -> str:
    """Return a difference between two sides as one between a run and full results."""
    for side, name in zip(_THE_SIDES, ("the run", "the logs")):
        text = text.replace(side, name)
    return text
