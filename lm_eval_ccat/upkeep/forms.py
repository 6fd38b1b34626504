"""A fixed form: the few items that best predict the score of the whole benchmark.

An adaptive test asks each model its own items. If you can only run a fixed list, use a *form*:
items chosen once for all models, with the linear regression of the benchmark's mean on their scores
(not the mean of these scores, which is biased because the items are chosen).

Item scores and the mean over all items have a joint covariance over models. Its sample estimate is
shrunk towards that of one common factor, by a share that is found by leaving models out; shrinkage
makes forms possible with fewer models than items. Items are taken one after the other,
each time the one that leaves the least variance of the mean (forward selection, a pivoted Cholesky
decomposition, so that no matrix of all pairs of items is needed).

Its folder holds ``form.json`` and a task (YAML) that includes the original one, with a module that
picks its documents. The harness renumbers the documents of such a task, so they are matched by
their place in the form, and by their hashes if both have them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from .. import __version__
from ..bank import ItemBank
from ..bank.file import plain, read_json
from ..content import Facts
from ..errors import BankError, BankMismatchError, CcatError, UsageError
from ..files import replace_text, writing
from ..methods.policy import rounded
from ..metrics.registry import Metric
from ..metrics.scale import Floats, Scale
from ..metrics.text_pairs import PAIR_METRICS, SENTENCE, parts_of
from ..scores import ScoreTable
from ..scores.reading import Logged
from ..scores.table import read_beside, reader_of
from .check import aligned_scores
from .score_tables import table_of

FORMAT, VERSION = "lm-eval-ccat/form", 1
#: Name of the file of a form.
FILE = "form.json"
#: Shares of the common factor that are tried.
SHARES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 1.0)
#: Parts of the models that are left out in turn.
FOLDS = 10
#: Least number of models that a form is made from.
MIN_MODELS = 8
#: Variance that counts as none.
_LEAST_VARIANCE = 1e-9
#: Confidence of the intervals of a form's estimates.
CONFIDENCE = 0.95
#: Number of axes of each of a form's figures; each axis is as long as its items.
_AXES = {"mean": 1, "covariance": 2, "with_mean": 1, "centre": 0, "variance": 0, "error": 0}
#: What the file says of the bank.
_OF_BANK = ("task", "metric", "filter", "n_items", "bank_sha256")


@dataclass(frozen=True, eq=False)
class Form:
    """Items and the regression of the benchmark's mean on their scores.

    Attributes
    ----------
    items : tuple of doc_id
    doc_hashes : tuple of (str or None)
    mean : ndarray of shape (n,)
        Mean scores of the items over the models they were chosen by, on [0, 1].
    covariance : ndarray of shape (n, n)
    with_mean : ndarray of shape (n,)
        Covariance of each item with the mean over the benchmark.
    centre, variance : float
        Mean and variance of the mean over the benchmark.
    error : float
        Root of the mean squared error for models that had no part in choosing the items.
    models : int
        Number of models that it was made from.
    task, metric, filter, scale, n_items, bank_sha256
        Those of the bank that it was made from.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> skill = rng.normal(size=(60, 1))
    >>> scores = 1 / (1 + np.exp(-skill - rng.normal(size=80) + 0.5 * rng.normal(size=(60, 80))))
    >>> form = make_form(scores[:50], range(80), 8)
    >>> estimate, error = form.estimate({i: scores[55, i] for i in form.items})
    >>> bool(abs(estimate - scores[55].mean()) < 4 * error)
    True
    """

    items: tuple[Any, ...]
    doc_hashes: tuple[str | None, ...]
    mean: Floats
    covariance: Floats
    with_mean: Floats
    centre: float
    variance: float
    error: float
    models: int
    task: str | None = None
    metric: str = "score"
    filter: str | None = None
    scale: Scale = field(default_factory=Scale)
    n_items: int = 0
    bank_sha256: str = ""

    @property
    def estimand(self) -> str:
        """What its estimates are of, in words."""
        prefix = SENTENCE if parts_of(self.metric).base in PAIR_METRICS else ""
        what = Metric(self.metric, self.scale, prefix).in_words
        return f"{what} over all {self.n_items} documents of {self.task}"

    @property
    def name(self) -> str:
        """The name of its task under the plain harness."""
        stem = re.sub(r"\W+", "_", self.task or "task")
        return f"{stem}_form1_{len(self.items)}"

    def estimate(self, scores: Mapping[Any, float]) -> tuple[float, float]:
        """Estimate the mean score over the whole benchmark.

        The estimate is ``centre + w . (scores - mean)``, where ``w`` solves ``covariance w =
        with_mean``, all over the items that have a score.

        Parameters
        ----------
        scores : mapping of doc_id to float
            On [0, 1]; items that lack one count as not asked.

        Returns
        -------
        estimate, standard_error : float
            On [0, 1].

        Raises
        ------
        UsageError
            No item of the form has a score.
        """
        answered = [
            i for i, doc_id in enumerate(self.items) if np.isfinite(scores.get(doc_id, np.nan))
        ]
        if not answered:
            raise UsageError("no item of the form has a score")
        answers = np.array([float(scores[self.items[i]]) for i in answered])
        # Where answers are missing, the regression on the others is another one.
        covariance = self.covariance[np.ix_(answered, answered)]
        weights = np.linalg.solve(covariance, self.with_mean[answered])
        weights_of_all = np.linalg.solve(self.covariance, self.with_mean)
        value = self.centre + float(weights @ (answers - self.mean[answered]))
        # The stated error is that by all items; fewer leave more variance, and err in proportion.
        residual = self.variance - float(self.with_mean[answered] @ weights)
        residual_of_all = max(
            self.variance - float(self.with_mean @ weights_of_all), _LEAST_VARIANCE
        )
        widening = float(np.sqrt(max(residual, residual_of_all) / residual_of_all))
        return min(max(value, 0.0), 1.0), self.error * widening

    def interval(self, estimate: float, error: float) -> tuple[float, float]:
        """Return the interval of the mean score at `CONFIDENCE`, by Student's t, cut to [0, 1]."""
        reach = float(stdtrit(max(self.models - 1, 1), 0.5 + 0.5 * CONFIDENCE)) * error
        return max(0.0, estimate - reach), min(1.0, estimate + reach)

    def save(self, folder: str | Path) -> Path:
        """Write ``form.json``.

        Raises
        ------
        BankError
            It cannot be written.
        """
        path = Path(folder) / FILE
        numbers = {
            key: plain(value)
            for key, value in vars(self).items()
            if key not in (*_OF_BANK, "scale")
        }
        content = {
            "format": FORMAT,
            "version": VERSION,
            "made_by": f"lm-eval-ccat {__version__}",
            **{key: getattr(self, key) for key in _OF_BANK},
            "scale": self.scale.to_dict(),
            "forms": [numbers],
        }
        with writing(path, BankError):
            replace_text(path, json.dumps(content) + "\n")
        return path

    @classmethod
    def load(cls, path: str | Path) -> Form:
        """Read the folder of a form, or its ``form.json``.

        Raises
        ------
        UsageError
            There is none.
        BankError
            It is damaged.
        """
        file = Path(path) / FILE if Path(path).is_dir() else Path(path)
        try:
            return cls._from_content(read_json(file))
        except FileNotFoundError:
            raise UsageError(f"{file}: no such file; `bank form` makes it") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
            raise BankError(f"{file}: not a readable form ({e})") from None

    @classmethod
    def _from_content(cls, content: Any) -> Form:
        """Make the form that a file holds; what it lacks or has otherwise raises some exception."""
        if content["format"] != FORMAT or content["version"] != VERSION:
            raise ValueError(f"not of format {FORMAT}, version {VERSION}")
        [form] = content["forms"]
        items, hashes = tuple(form["items"]), tuple(form["doc_hashes"])
        figures: dict[str, Any] = {}
        for name, n_axes in _AXES.items():
            figure = np.array(form[name], dtype=np.float64)
            if figure.shape != (len(items),) * n_axes or not np.isfinite(figure).all():
                raise ValueError(f"{name} does not fit {len(items)} items")
            figures[name] = figure if n_axes else float(figure)
        # A matrix that is no covariance would give estimates all the same. This refuses it, by an
        # error that is a ValueError.
        np.linalg.cholesky(figures["covariance"])
        if not items or len(hashes) != len(items):
            raise ValueError("items and hashes do not fit one another")
        of_bank = {key: content[key] for key in _OF_BANK}
        return cls(
            items,
            hashes,
            models=int(form["models"]),
            scale=Scale.from_dict(content["scale"]),
            **figures,
            **{**of_bank, "n_items": int(content["n_items"])},
        )


def load_forms(folder: str | Path) -> list[Form]:
    """Read the form of a folder, or those of the folders in it, one for each bank of a suite.

    Raises
    ------
    BankError
        There is none, or one is damaged.
    """
    inner = sorted(file.parent for file in Path(folder).glob(f"*/{FILE}"))
    return [Form.load(form_folder) for form_folder in inner or [Path(folder)]]


def form_of(bank: ItemBank, n_items: int, table: ScoreTable | None = None) -> Form:
    """Make a form of a bank's items.

    Parameters
    ----------
    bank : ItemBank
    n_items : int
    table : ScoreTable, optional
        Full results of many models; default the scores that the bank keeps.

    Raises
    ------
    BankError
        There are no scores, or of too few models.
    UsageError
        Too few items.
    """
    if table is None:
        # Items that answers chose are no sample, and few items say little of the whole.
        full = [
            observation
            for observation in bank.observations
            if observation.chosen != "adaptive" and len(observation.items) > 0.5 * bank.n_items
        ]
        if not full:
            raise BankError(
                "the bank keeps no full results: give those it was calibrated on (--scores), or "
                "calibrate it with --keep_scores"
            )
        table = table_of(bank, full)
    scores = aligned_scores(bank, table)
    form = make_form(scores, bank.doc_ids, n_items, doc_hashes=bank.doc_hashes, usable=bank.kept)
    of_bank = {key: getattr(bank, key) for key in ("task", "metric", "filter", "scale", "n_items")}
    return replace(form, bank_sha256=bank.sha256, **of_bank)


def make_form(
    scores: Any,
    doc_ids: Sequence[Any],
    n_items: int,
    *,
    doc_hashes: Sequence[str | None] | None = None,
    usable: Any = None,
) -> Form:
    """Choose the items of a form.

    Parameters
    ----------
    scores : array_like of shape (n_models, n_documents)
        Of all models on the whole benchmark, on [0, 1]; NaN where missing.
    doc_ids : sequence
    n_items : int
    doc_hashes : sequence of (str or None), optional
    usable : array_like of bool, optional
        Items that may be chosen; default all.

    Raises
    ------
    BankError
        Fewer than eight models have scores.
    UsageError
        There are too few items that tell models apart.
    """
    observed = np.asarray(scores, dtype=np.float64)
    # A model without a score would count as one that scores the mean of every item.
    filled = _filled(observed[np.isfinite(observed).any(axis=1)])
    n_models = len(filled)
    if n_models < MIN_MODELS:
        raise BankError(f"a form needs the scores of at least {MIN_MODELS} models, not {n_models}")
    may_choose = np.ones(filled.shape[1], dtype=bool) if usable is None else np.array(usable, bool)
    n_usable = int((may_choose & (filled.var(axis=0) > _LEAST_VARIANCE)).sum())
    if not 1 <= n_items <= n_usable:
        raise UsageError(f"no form of {n_items} items: {n_usable} items tell models apart")
    errors = {share: _left_out_error(filled, may_choose, n_items, share) for share in SHARES}
    share = min(errors, key=errors.__getitem__)
    covariance = _Covariance(filled, share)
    form_items = sorted(covariance.chosen(may_choose, n_items))
    return Form(
        items=tuple(doc_ids[i] for i in form_items),
        doc_hashes=tuple(doc_hashes[i] if doc_hashes else None for i in form_items),
        mean=covariance.mean[form_items],
        covariance=covariance.block(form_items),
        with_mean=covariance.with_mean[form_items],
        centre=float(covariance.mean.mean()),
        variance=covariance.variance,
        error=float(np.sqrt(errors[share])),
        models=n_models,
    )


def _filled(scores: Floats) -> Floats:
    """Return scores; a missing one is its model's mean plus its item's less the mean of all."""
    present = np.isfinite(scores)
    if present.all():
        return scores
    model_means, item_means = (
        np.where(present, scores, 0.0).sum(axis=axis, keepdims=True)
        / np.maximum(present.sum(axis=axis, keepdims=True), 1)
        for axis in (1, 0)
    )
    likely = np.clip(model_means + item_means - float(scores[present].mean()), 0.0, 1.0)
    return np.where(present, scores, likely)


def _left_out_error(
    scores: Floats, may_choose: NDArray[np.bool_], n_items: int, share: float
) -> float:
    """Return the mean squared error for models that had no part in choosing a form's items."""
    n_models, truth = len(scores), scores.mean(axis=1)
    fold = np.random.default_rng(0).permutation(np.arange(n_models) % min(FOLDS, n_models))
    squares = np.zeros(n_models)
    # Models that are left out together; their means over all items are the truth.
    for left_out in (fold == number for number in np.unique(fold)):
        covariance = _Covariance(scores[~left_out], share)
        items, mean = covariance.chosen(may_choose, n_items), covariance.mean
        weights = np.linalg.solve(covariance.block(items), covariance.with_mean[items])
        predicted = mean.mean() + (scores[left_out][:, items] - mean[items]) @ weights
        squares[left_out] = (np.clip(predicted, 0.0, 1.0) - truth[left_out]) ** 2
    return float(squares.mean())


class _Covariance:
    """Covariance of item scores over models, shrunk towards that of one common factor.

    It is ``(1 - share) S + share (l l' + D)``: ``S`` the sample covariance, ``l`` the items'
    loadings on the factor, which is the models' mean, and ``D`` diagonal, so that the variances
    are those of ``S``.

    Attributes
    ----------
    mean, diagonal, with_mean : ndarray of shape (n_items,)
        Mean and variance of each item, and its covariance with the mean over all items.
    variance : float
        Of the mean over all items.
    """

    def __init__(self, scores: Floats, share: float) -> None:
        self.mean = scores.mean(axis=0)
        # Deviations whose products sum to the sample covariance.
        self._deviations = (scores - self.mean) / np.sqrt(len(scores) - 1)
        self._share = share
        factor = self._deviations.mean(axis=1)
        self.diagonal = np.maximum((self._deviations**2).sum(axis=0), _LEAST_VARIANCE)
        self._loading = self._deviations.T @ factor / max(float(np.linalg.norm(factor)), 1e-12)
        unique = np.maximum(self.diagonal - self._loading**2, 0.0)
        by_factor = self._loading * self._loading.mean() + unique / scores.shape[1]
        self.with_mean = (1.0 - share) * (self._deviations.T @ factor) + share * by_factor
        self.variance = float(self.with_mean.mean())

    def column(self, i: int) -> Floats:
        """Return the covariances of item `i` with all; shape (n_items,)."""
        column = (1.0 - self._share) * (self._deviations.T @ self._deviations[:, i])
        column += self._share * self._loading[i] * self._loading
        # The factor explains what items share; their own variance is known as it is.
        column[i] = self.diagonal[i]
        return np.asarray(column)

    def block(self, items: list[int]) -> Floats:
        """Return the covariance of some items."""
        return np.array([self.column(i)[items] for i in items])

    def chosen(self, may_choose: NDArray[np.bool_], n_items: int) -> list[int]:
        """Select forward: each time the item that explains most of the remaining variance."""
        # Items that all models answer alike explain nothing, and would divide by zero.
        free = may_choose & (self.diagonal > 2 * _LEAST_VARIANCE)
        # What the items that are chosen so far leave of each covariance and variance.
        with_mean, variance = self.with_mean.copy(), self.diagonal.copy()
        items: list[int] = []
        factors: list[Floats] = []  # columns of the Cholesky factor
        for _ in range(n_items):
            # By how much each item lowers the variance of the mean that is left.
            explained = with_mean**2 / np.maximum(variance, _LEAST_VARIANCE)
            i = int(np.argmax(rounded(np.where(free, explained, -np.inf))))
            # The item's next column of the Cholesky factor.
            column = self.column(i)
            for factor in factors:
                column = column - factor[i] * factor
            column = column / np.sqrt(max(float(column[i]), _LEAST_VARIANCE))
            # Take out what the item explains of the mean and of the other items.
            root = np.sqrt(max(float(variance[i]), _LEAST_VARIANCE))
            with_mean -= column * float(with_mean[i]) / root
            variance = np.maximum(variance - column**2, 0.0)
            factors.append(column)
            items.append(i)
            free[i] = False
        return items


def write_form(
    form: Form, folder: str | Path, include_path: str | Path | None = None
) -> tuple[dict[str, object], str]:
    """Write a form and, if possible, a task of the plain harness for it.

    Parameters
    ----------
    form : Form
    folder : path
    include_path : path, optional
        Folder with further task files.

    Returns
    -------
    facts : dict
        The form as JSON values, its error on the metric's own scale.
    why_no_task : str
        Why there is no task; empty where there is one.
    """
    from ..harness.opening import task_file

    form.save(folder)
    # The list of documents is of use without a task, too.
    why_no_task = "" if form.task else "the bank does not name its task"
    try:
        if form.task:
            _write_task(form, Path(folder), *task_file(form.task, include_path))
    except CcatError as error:
        why_no_task = str(error)
    facts_of_form = {
        "task": None if why_no_task else form.name,
        "doc_ids": list(form.items),
        "error": float(form.scale.restore_error(form.error)),
        "models": form.models,
    }
    return {"folder": str(folder), "forms": [facts_of_form]}, why_no_task


def _write_task(form: Form, folder: Path, config: Mapping[str, Any], base: Path) -> None:
    """Write the task; `config` is the original one's, functions as text, `base` its YAML file."""
    split = config.get("test_split") or config.get("validation_split")
    # Such a task cannot be included and given other documents.
    if "class" in config or not split:
        raise UsageError(f"task {form.task} keeps its documents in code; run the list of doc_ids")
    # The harness picks documents by number.
    if any(not isinstance(doc_id, int) for doc_id in form.items):
        raise UsageError("the bank's doc_ids are not document numbers of the harness")
    name, module = form.name, f"{form.name}_docs"
    # The task may select or order its documents itself, before the form picks some of them.
    own_selection, documents = "", "dataset"
    if config.get("process_docs"):  # as /folder/module.function
        file, _, function = str(config["process_docs"]).removeprefix("!function ").rpartition(".")
        own_selection = _OWN_SELECTION.format(file=f"{file}.py", name=function)
        documents = "_before(dataset)"
    yaml = _YAML.format(name=name, base=base.resolve(), module=module, task=form.task)
    replace_text(folder / f"{name}.yaml", yaml)
    code = _MODULE.format(
        task=form.task,
        items=list(form.items),
        split=str(split),
        own_selection=own_selection,
        documents=documents,
    )
    replace_text(folder / f"{module}.py", code)


def score_form(form: Form, logs: str | Path) -> dict[str, list[Facts]]:
    """Estimate the whole benchmark's score from the logs of a form.

    Parameters
    ----------
    form : Form
    logs : path
        Logs of the form's task, or of the original one, by any number of models.

    Returns
    -------
    dict of str to list of dict
        By model a list of one: ``form`` (always 1), ``estimate``, ``standard_error`` and
        ``interval`` on the metric's own scale, and the number of ``items`` that have a score.

    Raises
    ------
    BankMismatchError
        The documents are not those of the form.
    UsageError
        The logs hold neither the form nor the task.
    """
    path = Path(logs)
    tasks = {outcome.task for outcome in reader_of(path).outcomes(path)}
    task = next((task for task in (form.name, form.task) if task in tasks), None)
    estimates: dict[str, list[Facts]] = {}
    # A table that names no task is of whatever is asked for.
    if task is not None or tasks == {None}:
        table = read_beside(path, Logged(task, form.metric, form.filter), "the form", form.scale)
        ids = _doc_ids(form, table) if task == form.name else table.doc_ids
        for model, row in zip(table.models, table.model_scores()):
            scores = dict(zip(ids, row.tolist()))
            n = int(np.isfinite([scores.get(doc_id, np.nan) for doc_id in form.items]).sum())
            if not n:
                continue
            estimate, error = form.estimate(scores)
            ends = form.scale.restore(np.array(form.interval(estimate, error)))
            estimates[model] = [{
                "form": 1,
                "estimate": float(form.scale.restore(estimate)),
                "standard_error": float(form.scale.restore_error(error)),
                "interval": sorted(ends.tolist()),
                "items": n,
            }]  # fmt: skip
    if not estimates:
        raise UsageError(f"{path}: no scores of {form.name} or of {form.task or 'its task'}")
    return estimates


def _doc_ids(form: Form, table: ScoreTable) -> list[Any]:
    """Return the bank's doc_ids for logs of a form's own task, which numbers them from 0."""
    for n, doc_id in enumerate(table.doc_ids):
        if not isinstance(doc_id, int) or not 0 <= doc_id < len(form.items):
            raise BankMismatchError(
                f"task {form.name} has a document {doc_id!r}, which its form lacks"
            )
        logged_hash = table.doc_hashes[n] if table.doc_hashes else None
        form_hash = form.doc_hashes[doc_id]
        if None not in (logged_hash, form_hash) and logged_hash != form_hash:
            raise BankMismatchError(
                f"document {doc_id} of task {form.name} is not doc_id {form.items[doc_id]!r} of "
                "the bank (doc_hash differs)"
            )
    return [form.items[doc_id] for doc_id in table.doc_ids]


_YAML = """\
# A fixed form of {task}. lm_eval prints the score of these documents alone;
# `lm-eval-ccat bank form FORM LOGS` estimates the score of the whole task.
include: {base}
task: {name}
process_docs: !function {module}.process_docs
"""
_MODULE = '''\
"""The documents of a fixed form of {task}."""

ITEMS = {items}
SPLIT = "{split}"
{own_selection}

def process_docs(dataset):
    """These documents of the split that is scored; few-shot examples come from all of theirs."""
    scored = str(getattr(dataset, "split", SPLIT)).removesuffix("[:]") == SPLIT
    dataset = {documents}
    return dataset.select(ITEMS) if scored else dataset
'''
_OWN_SELECTION = '''

def _before(dataset):
    """What the task does with its documents before they are numbered."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("_before_docs", {file!r})
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.{name}(dataset)
'''
