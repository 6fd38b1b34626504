"""A folder of forms: what they are, and tasks by which the plain harness runs them.

``form.json`` holds the forms; beside it stand for each a task (YAML) that includes the original
one, and a module that picks its documents. The harness numbers the documents of such a task anew,
so they are found again by their place in the form, and by their hashes where both have them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from .. import __version__
from ..bank import ItemBank
from ..bank.reading import bounded_text, parsed
from ..errors import BankError, BankMismatchError, CcatError, UsageError
from ..files import replace_text
from ..metrics.scale import Scale
from ..scores import ScoreTable
from ..scores.table import reader_of
from .check import aligned_scores
from .forms import Form, make_forms

FORMAT, VERSION, NAME = "lm-eval-ccat/form", 1, "form.json"


@dataclass(frozen=True)
class Forms:
    """Forms of one task, metric and filter, none with an item of another.

    Attributes
    ----------
    task, metric, filter : str or None
    scale : Scale
    n_items : int
        Of the benchmark.
    bank_sha256 : str
        The bank they were made with.
    forms : tuple of Form
    """

    task: str | None
    metric: str
    filter: str | None
    scale: Scale
    n_items: int
    bank_sha256: str
    forms: tuple[Form, ...]

    def name(self, number: int) -> str:
        """Return the name of the task of form `number` (from 1)."""
        stem = re.sub(r"\W+", "_", self.task or "task")
        return f"{stem}_form{number}_{len(self.forms[number - 1].items)}"

    def save(self, folder: str | Path) -> Path:
        """Write ``form.json``.

        Raises
        ------
        BankError
            It cannot be written.
        """
        path = Path(folder) / NAME
        content = {
            "format": FORMAT,
            "version": VERSION,
            "made_by": f"lm-eval-ccat {__version__}",
            **{k: getattr(self, k) for k in ("task", "metric", "filter", "n_items", "bank_sha256")},
            "scale": self.scale.to_dict(),
            "forms": [form.to_dict() for form in self.forms],
        }
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_text(path, json.dumps(content) + "\n")
        except OSError as e:
            raise BankError(f"{path}: cannot be written ({e.strerror or e})") from e
        return path

    @classmethod
    def load(cls, path: str | Path) -> Forms:
        """Read a folder of forms, or its ``form.json``.

        Raises
        ------
        BankError
            There is none, or it is damaged.
        """
        file = Path(path) / NAME if Path(path).is_dir() else Path(path)
        try:
            d = parsed(bounded_text(file))
            if d["format"] != FORMAT or d["version"] != VERSION:
                raise ValueError(f"not of format {FORMAT}, version {VERSION}")
            forms = tuple(Form.from_dict(one) for one in d["forms"])
            scale, n = Scale.from_dict(d["scale"]), int(d["n_items"])
            if not forms:
                raise ValueError("it has no form")
            return cls(d["task"], d["metric"], d["filter"], scale, n, d["bank_sha256"], forms)
        except FileNotFoundError:
            raise BankError(f"{file}: no such file; `bank form` makes it") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
            raise BankError(f"{file}: not a readable form ({e})") from None


def load_forms(folder: str | Path) -> list[Forms]:
    """The forms of a folder: its own, or those of the folders in it, one for each bank of a suite.

    Raises
    ------
    BankError
        There are none, or some are damaged.
    """
    inner = sorted(file.parent for file in Path(folder).glob(f"*/{NAME}"))
    return [Forms.load(one) for one in inner] or [Forms.load(folder)]


def forms_of(
    bank: ItemBank, n_items: int, parallel: int = 1, table: ScoreTable | None = None
) -> Forms:
    """Make forms of a bank's items.

    Parameters
    ----------
    bank : ItemBank
    n_items, parallel : int
        Items of each form, and how many.
    table : ScoreTable, optional
        Full results of many models; default the scores that the bank keeps.

    Raises
    ------
    BankError
        There are no scores, or of too few models.
    UsageError
        Too few items.
    """
    if table is not None:
        scores = aligned_scores(bank, table)
    else:
        scores = np.full((len(bank.observations), bank.n_items), np.nan)
        for row, seen in zip(scores, bank.observations):
            if seen.chosen != "adaptive":
                row[seen.items] = seen.scores
        scores = scores[np.isfinite(scores).mean(axis=1) > 0.5]
        if not len(scores):
            raise BankError(
                "the bank keeps no scores: give those it was calibrated on (--scores), or "
                "calibrate it with --keep_scores"
            )
    forms = make_forms(
        scores,
        bank.doc_ids,
        n_items,
        parallel,
        doc_hashes=bank.doc_hashes,
        offered=bank.kept,
    )
    return Forms(
        bank.task, bank.metric, bank.filter, bank.scale, bank.n_items, bank.sha256, tuple(forms)
    )


def write_forms(
    forms: Forms, folder: str | Path, include_path: str | Path | None = None
) -> tuple[dict[str, object], str]:
    """Write forms, and where that can be done tasks of the plain harness for them.

    Parameters
    ----------
    forms : Forms
    folder : path
    include_path : path, optional
        Folder with further task files.

    Returns
    -------
    facts : dict
        The forms as JSON values, errors on the metric's own scale.
    lacking : str
        Why there are no tasks; empty where there are.
    """
    from ..harness.opening import task_file

    forms.save(folder)
    lacking = "" if forms.task else "the bank does not name its task"
    try:
        if forms.task:
            write_tasks(forms, folder, *task_file(forms.task, include_path))
    except CcatError as error:
        lacking = str(error)
    each = [
        {
            "task": None if lacking else forms.name(number),
            "doc_ids": list(form.items),
            "error": float(forms.scale.restore_error(form.error)),
            "models": form.models,
        }
        for number, form in enumerate(forms.forms, start=1)
    ]
    return {"folder": str(folder), "forms": each}, lacking


def write_tasks(forms: Forms, folder: str | Path, config: Mapping[str, Any], base: Path) -> None:
    """Write a task of the plain harness for each form.

    Parameters
    ----------
    forms : Forms
    folder : path
    config : mapping
        The task's configuration, functions as text.
    base : Path
        Its YAML file.

    Raises
    ------
    UsageError
        The task's documents have no numbers, or it is a class rather than a YAML file.
    """
    split = config.get("test_split") or config.get("validation_split")
    if "class" in config or not split:
        raise UsageError(f"task {forms.task} keeps its documents in code; run the list of doc_ids")
    if any(not isinstance(d, int) for form in forms.forms for d in form.items):
        raise UsageError("the bank's doc_ids are not document numbers of the harness")
    for number, form in enumerate(forms.forms, start=1):
        name = forms.name(number)
        module = f"{name}_docs"
        text = _YAML.format(name=name, base=base.resolve(), module=module, task=forms.task)
        replace_text(Path(folder) / f"{name}.yaml", text)
        code = ""
        if config.get("process_docs"):  # as /folder/module.function
            text = str(config["process_docs"]).removeprefix("!function ")
            file, _, function = text.rpartition(".")
            code = _OWN.format(file=f"{file}.py", name=function)
        replace_text(
            Path(folder) / f"{module}.py",
            _MODULE.format(
                task=forms.task, items=list(form.items), split=str(split), own=code,
                process="_own(dataset)" if code else "dataset",
            ),
        )  # fmt: skip


class FormEstimate(TypedDict):
    """A model's estimate of the whole from one form, on the metric's own scale."""

    form: int
    estimate: float
    standard_error: float
    interval: list[float]
    items: int


def score_forms(
    forms: Forms, logs: str | Path, confidence: float = 0.95
) -> dict[str, list[FormEstimate]]:
    """Estimate the whole benchmark's score from the logs of forms.

    Parameters
    ----------
    forms : Forms
    logs : path
        Of the forms' tasks, or of the original one, by any number of models.
    confidence : float, optional
        Of the intervals, two-sided.

    Returns
    -------
    dict of str to list of FormEstimate
        By model, one for each form that it was given.

    Raises
    ------
    BankMismatchError
        The documents are not those of the form.
    UsageError
        The logs hold neither a form nor the task.
    """
    path = Path(logs)
    tasks = {o.task for o in reader_of(path).outcomes(path)}
    estimates: dict[str, list[FormEstimate]] = {}
    for number, form in enumerate(forms.forms, start=1):
        name = forms.name(number)
        task = name if name in tasks else forms.task if forms.task in tasks else None
        if task is None and tasks != {None}:
            continue
        table = ScoreTable.read(path, forms.metric, task, forms.filter, scale=forms.scale)
        ids = _doc_ids(form, table, name) if task == name else table.doc_ids
        for model, row in zip(table.models, table.model_scores()):
            scores = dict(zip(ids, row.tolist()))
            n = int(np.isfinite([scores.get(d, np.nan) for d in form.items]).sum())
            if not n:
                continue
            estimate, error = form.estimate(scores)
            ends = form.interval(estimate, error, confidence)
            estimates.setdefault(model, []).append(
                {
                    "form": number,
                    "estimate": float(forms.scale.restore(estimate)),
                    "standard_error": float(forms.scale.restore_error(error)),
                    "interval": sorted(float(forms.scale.restore(end)) for end in ends),
                    "items": n,
                }
            )
    if not estimates:
        names = ", ".join(forms.name(n + 1) for n in range(len(forms.forms)))
        raise UsageError(f"{path}: no scores of {names} nor of {forms.task}")
    return estimates


def _doc_ids(form: Form, table: ScoreTable, name: str) -> list[Any]:
    """Items of a form's own task: the harness numbers its documents from 0."""
    ids = []
    for n, doc_id in enumerate(table.doc_ids):
        if not isinstance(doc_id, int) or not 0 <= doc_id < len(form.items):
            raise BankMismatchError(f"task {name} has a document {doc_id!r}, which its form lacks")
        seen = table.doc_hashes[n] if table.doc_hashes else None
        if None not in (seen, form.doc_hashes[doc_id]) and seen != form.doc_hashes[doc_id]:
            raise BankMismatchError(
                f"document {doc_id} of task {name} is not doc_id {form.items[doc_id]!r} of the "
                "bank (doc_hash differs)"
            )
        ids.append(form.items[doc_id])
    return ids


_YAML = """\
# A fixed form of {task}. lm_eval prints the score of these documents alone;
# `lm-eval-ccat bank form FORM --score LOGS` estimates the score of the whole task.
include: {base}
task: {name}
process_docs: !function {module}.process_docs
"""
_MODULE = '''\
"""The documents of a fixed form of {task}."""

ITEMS = {items}
SPLIT = "{split}"
{own}

def process_docs(dataset):
    """These documents of the split that is scored; few-shot examples come from all of theirs."""
    scored = str(getattr(dataset, "split", SPLIT)) == SPLIT
    dataset = {process}
    return dataset.select(ITEMS) if scored else dataset
'''
_OWN = '''

def _own(dataset):
    """What the task does with its documents before they are numbered."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("_own_docs", {file!r})
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.{name}(dataset)
'''
