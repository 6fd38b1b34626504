"""The answers in harness logs, to be scored by a metric that the task did not have."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ScoreTableError
from ..metrics import Scale
from .readers.lm_eval.files import Run, find_runs, open_log
from .readers.lm_eval.settings import config_labels, shared_settings
from .table import ScoreTable


@dataclass(frozen=True)
class Answer:
    """One model's answer to one document.

    Attributes
    ----------
    model, config : str
        Who gave it, and in which generation settings if they vary.
    doc_id : int or str
    doc_hash : str or None
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
    doc: dict[str, Any]
    target: str
    text: str


@dataclass(frozen=True)
class Answers:
    """All answers of one task's logs.

    Attributes
    ----------
    answers : tuple of Answer
        One per model, config and document; of several runs the latest.
    task, filter : str
    settings : dict
        What the runs share.
    warnings : tuple of str
        What was left out, and why.
    """

    answers: tuple[Answer, ...]
    task: str
    filter: str
    settings: dict[str, Any]
    warnings: tuple[str, ...]

    @property
    def models(self) -> tuple[str, ...]:
        """The models, in order of first appearance."""
        return tuple(dict.fromkeys(answer.model for answer in self.answers))

    def table(self, scores: Sequence[float], metric: str, scale: Scale) -> ScoreTable:
        """A score table of scores given to the answers, in their order.

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
        rows = list(dict.fromkeys((a.model, a.config) for a in self.answers))
        doc_ids = sorted({a.doc_id for a in self.answers})
        row_of = {row: n for n, row in enumerate(rows)}
        column_of = {doc_id: n for n, doc_id in enumerate(doc_ids)}
        raw = np.full((len(rows), len(doc_ids)), np.nan)
        hashes: dict[Any, str | None] = {}
        for answer, score in zip(self.answers, scores, strict=True):
            raw[row_of[answer.model, answer.config], column_of[answer.doc_id]] = score
            hashes[answer.doc_id] = answer.doc_hash
        if not np.isfinite(raw).any():
            raise ScoreTableError(f"metric {metric} gave no score to any answer of {self.task}")
        scale.normalise(raw)
        return ScoreTable.from_arrays(
            raw,
            models=[model for model, _ in rows],
            configs=[config for _, config in rows],
            doc_ids=doc_ids,
            scale=scale,
            metric=metric,
            task=self.task,
            filter=self.filter,
            doc_hashes=tuple(hashes[d] for d in doc_ids) if any(hashes.values()) else None,
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
    ScoreTableError
        If there are none, or a task or filter must be named.
    """
    runs, warnings = find_runs(Path(path), task)
    usable = []
    for run in runs:
        reason, use = run.why_not_full()
        if reason:
            warnings.append(f"{run.samples}: {reason}{'' if use else '; left out'}")
        if use:
            usable.append(run)
    labels = dict(zip(map(id, usable), config_labels(usable)))
    found: dict[tuple[str, str, Any, str], Answer] = {}
    # Of the same (model, config, document) the latest run counts.
    for run in sorted(usable, key=lambda run: run.date):
        skipped = Counter[str]()
        names = list(dict.fromkeys(f for _, f in run.metric_keys)) or ["none"]
        earlier = Counter[Any]()
        for row in _rows(run, skipped):
            # Rows of the harness before 0.4.7 name no filter: the k-th of a document is of the
            # k-th filter.
            nth = earlier[row.get("doc_id")]
            earlier[row.get("doc_id")] += 1
            name = str(row.get("filter", names[min(nth, len(names) - 1)]))
            if filter in (None, name):
                answer = _answer(row, run, labels[id(run)], skipped)
                if answer is not None:
                    found[answer.model, answer.config, answer.doc_id, name] = answer
        warnings += [
            f"{run.samples}: {count} rows left out: {why}" for why, count in skipped.items()
        ]
    filters = sorted({key[3] for key in found})
    if not found:
        raise ScoreTableError(
            f"{path}: no answers" + (f" of filter {filter!r}" if filter else "") + " in the logs"
        )
    if len(filters) > 1:
        raise ScoreTableError(f"{path}: several filters ({', '.join(filters)}); name one")
    return Answers(
        tuple(found.values()), usable[0].task, filters[0], shared_settings(usable), tuple(warnings)
    )


def _rows(run: Run, skipped: Counter[str]) -> Iterator[dict[str, Any]]:
    with open_log(run.samples) as file:
        for line in file:
            try:
                row = json.loads(line)
            except ValueError:
                skipped["not JSON"] += 1
                continue
            if isinstance(row, dict):
                yield row


def _answer(row: dict[str, Any], run: Run, config: str, skipped: Counter[str]) -> Answer | None:
    texts = row.get("filtered_resps")
    if not isinstance(texts, list) or not texts or not isinstance(texts[0], str):
        skipped["the answer is no text"] += 1
        return None
    target = row.get("target")
    if isinstance(target, list):
        target = target[0] if target else ""
    doc = row.get("doc")
    return Answer(
        run.model,
        config,
        row.get("doc_id"),
        row.get("doc_hash"),
        doc if isinstance(doc, dict) else {},
        "" if target is None else str(target).strip(),
        texts[0].strip(),
    )
