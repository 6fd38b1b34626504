"""Answers that were given before: what models said, in the harness's samples files and in journals.

Unlike scores, answers can be scored again by any metric of the task, and stand for a new request
where the prompt is the same.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ScoreTableError
from .readers import journal
from .readers.lm_eval.files import Run, find_runs, open_log


@dataclass(frozen=True)
class EarlierAnswer:
    """What a model said to one document.

    Attributes
    ----------
    model : str
        As the log names it.
    doc_id : int
    prompt_hash : str
        Of the document's first request, as the harness has it.
    responses : list
        Per request, its responses.
    source : str
        The file.
    """

    model: str
    doc_id: int
    prompt_hash: str
    responses: list[Any]
    source: str


def earlier_answers(
    path: str | Path, task: str, warn: Callable[[str], None] | None = None
) -> list[EarlierAnswer]:
    """Every answer to a task at or below a path, older ones first.

    Parameters
    ----------
    path : path
        Logs of the harness with samples (full runs, ``--limit``, adaptive ones), or a run directory
        of a ranking.
    task : str
    warn : callable, optional
        Is told of files and lines that cannot be read, and so are passed over.

    Raises
    ------
    ScoreTableError
        There is no such path, or no answer to the task.
    """
    place = Path(path)
    if not place.exists():
        raise ScoreTableError(f"{place}: no such file or directory of earlier answers")
    if journal.can_read(place):
        found = list(_of_journals(place, task))
    else:
        runs, troubles = find_runs(place, task)
        found = []
        for run in sorted(runs, key=lambda r: r.date):
            found += _of_samples(run, troubles)
        if warn is not None:
            for trouble in troubles:
                warn(trouble)
    if not found:
        raise ScoreTableError(f"{place}: no answer to task {task}; were samples logged?")
    return found


def _of_journals(path: Path, task: str) -> Iterator[EarlierAnswer]:
    for file in journal.journals(path):
        several = journal.header_of(file)["task"].get("name") != task
        for record in journal.records(file):
            responses, prompt = record.get("responses"), record.get("prompt_sha256")
            item = record.get("item", record.get("doc"))
            if several and not (isinstance(item, list) and item[0] == task):
                continue
            doc_id = item[1] if isinstance(item, list) else item
            if responses and isinstance(prompt, str) and isinstance(doc_id, int):
                yield EarlierAnswer(str(record["model"]), doc_id, prompt, responses, str(file))


def _of_samples(run: Run, troubles: list[str]) -> Iterator[EarlierAnswer]:
    try:
        with open_log(run.samples) as stream:
            text = stream.read().decode("utf-8", "replace")
        rows = list(_rows(text))
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        troubles.append(f"{run.samples}: cannot be read ({error}); its answers are asked again")
        return
    if torn := rows.count(None):
        troubles.append(f"{run.samples}: {torn} damaged lines; their answers are asked again")
    for row in rows:
        if row is None:
            continue
        responses, prompt, doc_id = (row.get(k) for k in ("resps", "prompt_hash", "doc_id"))
        if responses and isinstance(prompt, str) and isinstance(doc_id, int):
            said = [[_unwritten(r) for r in group] for group in responses]
            yield EarlierAnswer(run.model, doc_id, prompt, said, str(run.samples))


def _rows(text: str) -> Iterator[dict[str, Any] | None]:
    """The rows; None for a line torn by a crash, or damaged otherwise."""
    whole = text.lstrip().startswith("[")
    for part in json.loads(text) if whole else text.split("\n"):
        try:
            row = part if whole else json.loads(part) if part.strip() else {}
        except (ValueError, RecursionError):
            row = None
        yield row if isinstance(row, dict) else None


def _unwritten(response: Any) -> Any:
    """A response as the model gave it: the harness writes a log-likelihood as two texts.

    Examples
    --------
    >>> _unwritten(["-1.5", "False"])
    [-1.5, False]
    """
    if isinstance(response, list) and len(response) == 2 and response[1] in ("True", "False"):
        return [float(response[0]), response[1] == "True"]
    return response
