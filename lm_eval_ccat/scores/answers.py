"""Answers in harness logs and journals, to score by another metric or to reuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import ScoreTableError
from ..metrics import Scale
from ..plugins import existing
from ..records import Answered
from .configuration import configurations_in
from .grid import ScoreGrid
from .prompts import DIGITS
from .readers import run_journal
from .readers.comparable_runs import full_runs, labels_of, oldest_first, shared_settings
from .readers.logged_runs import LoggedRun, find_runs
from .readers.samples import RunSamples, SampleRow, filter_of, hash_of_row, mark_of_row, rows_of
from .reading import Query, one_of
from .table import ScoreTable


@dataclass(frozen=True)
class LoggedAnswer:
    """One model's answer to one document.

    Attributes
    ----------
    model, config : str
        The model that gave it, and those of its generation settings in which the logged runs of
        one model differ, such as ``"temperature=0.7"``; "" for none.
    doc_id : int or str
    doc_hash : str or None
    mark : str or None
        Short hash of the prompt (see `prompts`); None if the log has no prompt.
    doc : dict
        The document, as the task has it.
    target : str
        The task's reference; the first of several.
    text : str
        The answer, filtered.
    """

    model: str
    config: str
    doc_id: Any
    doc_hash: str | None
    mark: str | None
    doc: dict[str, object]
    target: str
    text: str


@dataclass(frozen=True)
class Answers:
    """All answers of one task's logs.

    Attributes
    ----------
    answers : tuple of LoggedAnswer
        One per model, config and document; of several runs the latest.
    task, filter : str
    settings : dict
        Settings that the runs share.
    warnings : tuple of str
        What was left out, and why.
    """

    answers: tuple[LoggedAnswer, ...]
    task: str
    filter: str
    settings: dict[str, object]
    warnings: tuple[str, ...]

    @property
    def models(self) -> tuple[str, ...]:
        """The models, in order of first appearance."""
        return tuple(dict.fromkeys(answer.model for answer in self.answers))

    def table(self, scores: Sequence[float], metric: str, scale: Scale) -> ScoreTable:
        """Make a score table from scores of the answers, in their order.

        Parameters
        ----------
        scores : sequence of float
            Raw scores; NaN where there is none.
        metric : str
        scale : Scale

        Raises
        ------
        ScoreTableError
            If no answer has a score.
        ScaleError
            If a score lies outside the scale.
        """
        grid = ScoreGrid()
        grid.lay(
            [(answer.model, answer.config) for answer in self.answers],
            [answer.doc_id for answer in self.answers],
            scores,
            [answer.doc_hash for answer in self.answers],
            [answer.mark for answer in self.answers],
        )
        return grid.finish(
            Path(self.task),
            Query(scale=scale),
            metric,
            task=self.task,
            filter=self.filter,
            settings=self.settings,
            warnings=self.warnings,
        )


def read_answers(path: str | Path, task: str | None = None, filter: str | None = None) -> Answers:
    """Read the answers of one task from harness logs.

    Parameters
    ----------
    path : path-like
        A directory of logs, or one of their files.
    task, filter : str, optional
        Needed where the logs hold several.

    Raises
    ------
    UsageError
        There is no such path, or a task or filter must be named.
    ScoreTableError
        The logs hold no answers.
    """
    runs, warnings = find_runs(existing(path, "file or directory of logs"), task)
    usable, left_out = full_runs(runs)
    warnings += left_out
    answers: dict[tuple[str, str, Any, str], LoggedAnswer] = {}
    # For the same (model, config, document) the latest run counts.
    for run, (model, config) in oldest_first(usable, labels_of(usable)):
        left_out_rows = Counter[str]()
        file, n_unnamed = RunSamples(run.samples, run.filters_of() or ["none"]), Counter[Any]()
        for _, row in rows_of(run.samples):
            # Of a line that is no row, `rows_of` yields why.
            if isinstance(row, str):
                left_out_rows["damaged"] += 1
                continue
            # A row without an answer counts among those that name no filter.
            logged_filter = filter_of(row, file, n_unnamed)
            if (answer := _logged_answer(row, model, config, run.template)) is None:
                left_out_rows["the answer is not text"] += 1
            else:
                answers[model, config, answer.doc_id, logged_filter] = answer
        warnings += [f"{run.samples}: {n} rows left out: {why}" for why, n in left_out_rows.items()]
    if not answers:
        raise ScoreTableError(f"{path}: no answers in the logs")
    name = one_of(Path(path), "filter", filter, (logged_filter for *_, logged_filter in answers))
    by_filter = tuple(
        answer for (*_, logged_filter), answer in answers.items() if logged_filter == name
    )
    return Answers(by_filter, usable[0].task, name, shared_settings(usable), tuple(warnings))


def _logged_answer(
    row: SampleRow, model: str, config: str, template: str | None
) -> LoggedAnswer | None:
    """Return the first answer that a row of samples holds; None if it is no text."""
    match row:
        case {"filtered_resps": [str(text), *_]}:
            doc, target = row.get("doc"), row.get("target")
            # Of several references the first counts.
            if isinstance(target, list):
                target = target[0] if target else ""
            return LoggedAnswer(
                model,
                config,
                doc_id=row["doc_id"],
                doc_hash=row.get("doc_hash"),
                mark=mark_of_row(row, template),
                doc=doc if isinstance(doc, dict) else {},
                target="" if target is None else str(target).strip(),
                text=text.strip(),
            )
    return None


@dataclass(frozen=True)
class EarlierAnswer:
    """What a model answered to one document, before any filter.

    Unlike scores, answers can be scored again by any metric of the task, and can replace a new
    request if the prompt is the same.

    Attributes
    ----------
    model : str
        As the log names it.
    doc_id : int
    prompt_hash : str or None
        Hash of all that was sent for the document; None if unknown.
    mark : str or None
        Mark of its prompt, before any chat template where the log has it so; None if unknown.
    responses : list
        The responses of each request.
    source : str
        The file.
    doc_hash : str or None
        Hash of the document, if the log has it.
    repeat : int
        Which answer to the document it is, from 1.
    configuration : dict of str to str
        What makes the configuration of the model that gave it; empty if unknown.
    """

    model: str
    doc_id: int
    prompt_hash: str | None
    responses: list[Any]
    source: str
    doc_hash: str | None = None
    repeat: int = 1
    mark: str | None = None
    configuration: dict[str, str] = field(default_factory=dict)

    def mark_for(self, templated: bool) -> str | None:
        """Return what to compare with the mark that a new run has for the prompt.

        Parameters
        ----------
        templated : bool
            Whether a chat template writes the prompts of the new run. Its marks are then of
            prompts before the template, like `mark`. Else they are of all that is sent, so that an
            answer to what a template wrote is not taken for one to the plain prompt.
        """
        return self.mark if templated else self.prompt_hash and self.prompt_hash[:DIGITS]

    def by_repeat(self) -> list[EarlierAnswer]:
        """Return an answer for each repeat, where a log has several responses to every request.

        Examples
        --------
        >>> answers = EarlierAnswer("m", 3, "", [["yes", "no"]], "samples.jsonl")
        >>> [(answer.repeat, answer.responses) for answer in answers.by_repeat()]
        [(1, [['yes']]), (2, [['no']])]
        """
        # The harness repeats every request equally often; a log that was cut off may not.
        number = min(map(len, self.responses))
        return [
            replace(self, responses=[[group[n]] for group in self.responses], repeat=n + 1)
            for n in range(number)
        ] if number > 1 else [self]  # fmt: skip


def earlier_answers(
    path: str | Path, task: str, warn: Callable[[str], None] | None = None
) -> list[EarlierAnswer]:
    """Return every answer to a task at or below a path, older ones first.

    Parameters
    ----------
    path : path
        Logs of the harness with samples (full runs, ``--limit``, adaptive ones), or a run directory
        of a ranking.
    task : str
    warn : callable, optional
        Called with a message about files and lines that cannot be read and are skipped.

    Raises
    ------
    UsageError
        There is no such path.
    ScoreTableError
        It holds no answer to the task.
    """
    source = existing(path, "file or directory of earlier answers")
    # A run directory holds logs of the harness, too, if it was completed; its journal has them all.
    if any(True for _ in run_journal.journals(source)):
        answers = list(_answers_in_journals(source, task))
    else:
        runs, troubles = find_runs(source, task)
        answers = []
        # The last answer to a document is the one that is taken over.
        for run in sorted(runs, key=lambda run: run.date):
            answers += _answers_in_samples(run, troubles)
        if warn is not None:
            for trouble in troubles:
                warn(trouble)
    if not answers:
        raise ScoreTableError(f"{source}: no answer to task {task}; were samples logged?")
    return answers


def _answers_in_journals(path: Path, task: str) -> Iterator[EarlierAnswer]:
    """Yield the answers that journals at a path hold."""
    for file in run_journal.journals(path):
        header, records = run_journal.run_of(file)
        # The header lists the marks of a task's prompts in the order of its documents.
        marks = dict(enumerate(header.task.get("prompts", {}).get(task, ())))
        configurations = configurations_in(header, task)
        for record in records:
            match record:
                # Any answer to the task with the hash of its prompt, whether or not it was scored.
                # Its item is (task, doc_id), or (task, doc_id, number of the repeat).
                case Answered(
                    item=(of_task, int(doc_id), *repeat),
                    responses=[_, *_] as responses,
                    prompt_sha256=str(prompt),
                ) if of_task == task:
                    number = int(repeat[0]) if repeat else 1
                    yield EarlierAnswer(
                        record.model,
                        doc_id=doc_id,
                        prompt_hash=prompt,
                        responses=responses,
                        source=str(file),
                        repeat=number,
                        mark=marks.get(doc_id),
                        configuration=configurations.get(record.model, {}),
                    )


def _answers_in_samples(run: LoggedRun, troubles: list[str]) -> Iterator[EarlierAnswer]:
    """Yield the answers that a run's samples hold; lines that cannot be read go to `troubles`."""
    damaged = 0
    for _, row in rows_of(run.samples):
        match row:
            case str():
                damaged += 1
            case {"resps": [_, *_] as responses, "doc_id": int(doc_id)}:
                try:
                    groups = _as_given(responses)
                # A text in place of a list of texts would be as many answers as it has letters.
                except ValueError:
                    damaged += 1
                    continue
                yield EarlierAnswer(
                    run.model,
                    doc_id=doc_id,
                    prompt_hash=hash_of_row(row),
                    responses=groups,
                    source=str(run.samples),
                    doc_hash=row.get("doc_hash"),
                    mark=mark_of_row(row, run.template),
                    configuration=run.configuration,
                )
    # Answers that cannot be read were paid for, and will be paid for again.
    if damaged:
        troubles.append(f"{run.samples}: {damaged} damaged lines; their answers are asked again")


def _as_given(responses: Sequence[Any]) -> list[list[Any]]:
    """Restore a document's responses, a list for each request, as the model gave them.

    The harness logs a log-likelihood, a number and whether it is of the likeliest text, as two
    texts.

    Raises
    ------
    ValueError
        A request has no list of responses, or a log-likelihood is no number.

    Examples
    --------
    >>> _as_given([[["-1.5", "False"]], ["four", "4"]])
    [[[-1.5, False]], ['four', '4']]
    """
    groups: list[list[Any]] = []
    for group in responses:
        if not isinstance(group, list):
            raise ValueError(f"{group!r:.40} is no list of responses")
        groups.append([_restored(response) for response in group])
    return groups


def _restored(response: Any) -> Any:
    """Return a response as the model gave it: a log-likelihood, or a text as it is."""
    match response:
        case [str(number), "True" | "False" as greedy]:
            return [float(number), greedy == "True"]
    return response
