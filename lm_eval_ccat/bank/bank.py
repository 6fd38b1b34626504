"""`ItemBank`: the calibrated items of one task, metric and filter, in one versioned text file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..errors import BankError, ScaleError, ScoreTableError, UsageError
from ..metrics.registry import known_scale
from ..metrics.scale import Floats, Scale
from ..plugins import near_path
from ..scores.numbering import renumbered
from ..scores.prompts import digest_of
from ..scores.table import DocId, sorted_ids
from ..shown import short
from . import file as bank_file

#: How the items of an observation were chosen: all items of the benchmark; the first ones
#: (``--limit``); at random with known probability; depending on the model's earlier scores.
CHOSEN = ("all", "first", "drawn", "adaptive")
#: Parts of every bank's file, in their order; observations and items follow.
_PARTS = (
    "method", "task", "metric", "filter", "scale", "constants", "models", "settings", "provenance",
    "self_check", "warnings",
)  # fmt: skip
#: What ``provenance["prompts"]`` says if the calibration models answered other prompts than those
#: that the harness makes.
PUBLISHED_ELSEWHERE = "published elsewhere"
#: Parts of ``provenance`` that say where published scores come from, and what an item takes; they
#: stay with the bank.
ORIGIN = ("sources", "license", "prompts", "tokens")
#: Digits of a stored score.
_DIGITS = 6
#: Largest number that a bank may hold, and largest length of a text in it.
LARGEST = 1e6
_MAX_LETTERS = 10_000


@dataclass(frozen=True, eq=False)
class Observation:
    """Scores of one model, in one configuration, on some items of a bank.

    Attributes
    ----------
    model : str
    config : str
        Its configuration (a temperature, say); "" if there is only one.
    chosen : {"all", "first", "drawn", "adaptive"}
        With "all" the items are all of the bank, in its order.
    items : ndarray of int, shape (n,)
        Positions in bank order, in the order in which they were asked.
    scores : ndarray of shape (n,)
        On [0, 1], higher is better.
    probabilities : ndarray of shape (n,), or None
        Probability of each item's draw among the items left; NaN for an item that was chosen.
    date : str or None
        ISO 8601.

    Raises
    ------
    ValueError
        The parts do not fit one another.
    """

    model: str
    chosen: str
    items: NDArray[np.intp]
    scores: Floats
    probabilities: Floats | None = None
    config: str = ""
    date: str | None = None

    def __post_init__(self) -> None:
        n, probabilities = len(self.items), self.probabilities
        fault = ""
        if self.chosen not in CHOSEN:
            fault = f"chosen {self.chosen!r:.40} is none of {', '.join(CHOSEN)}"
        elif self.scores.shape != (n,) or len(set(self.items.tolist())) != n:
            fault = "items and scores do not fit one another"
        elif not ((self.scores >= 0.0) & (self.scores <= 1.0)).all():
            fault = "a score is not in [0, 1]"
        elif probabilities is not None and not (
            probabilities.shape == (n,)
            and (np.isnan(probabilities) | (probabilities > 0) & (probabilities <= 1)).all()
        ):
            fault = "a probability is not in (0, 1]"
        if fault:
            raise ValueError(f"observation of model {self.model!r}: {fault}")

    def to_dict(self) -> dict[str, object]:
        """Return JSON values; `items` is None if they are all items in bank order."""
        return {
            "model": self.model,
            "config": self.config,
            "chosen": self.chosen,
            "date": self.date,
            "items": None if self.chosen == "all" else self.items.tolist(),
            "scores": np.round(self.scores, _DIGITS).tolist(),
            "probabilities": None
            if self.probabilities is None
            else [
                None if np.isnan(probability) else probability
                for probability in self.probabilities.tolist()
            ],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], n_items: int) -> Observation:
        """Rebuild from `to_dict` for a bank of `n_items`.

        Raises
        ------
        KeyError, TypeError, ValueError
            A part is missing or makes no sense.
        """
        # Full results need no list of all items.
        items = np.arange(n_items) if content["items"] is None else np.array(content["items"])
        if items.ndim != 1 or (items.size and items.dtype.kind != "i"):
            raise ValueError("an observation's items are not a list of numbers")
        if items.size and not (0 <= items.min() and items.max() < n_items):
            raise ValueError("an observation is of an item that the bank does not have")
        probabilities, date = content.get("probabilities"), content.get("date")
        return cls(
            _text(content["model"], "model"),
            chosen=content["chosen"],
            items=items.astype(np.intp),
            scores=np.array(content["scores"], dtype=np.float64),
            probabilities=None if probabilities is None else np.array(probabilities, np.float64),
            config=_text(content["config"], "config"),
            date=None if date is None else _text(date, "date"),
        )


@dataclass(frozen=True)
class DocumentComparison:
    """Comparison of a task's documents with those of a bank, by doc_id.

    Attributes
    ----------
    missing, new : tuple of doc_id
        Documents that only the bank has, and that only the task has.
    changed, same : tuple of doc_id
        Documents that both have, whose hashes differ or agree; if a hash is not known, in neither.
    renumbered : bool
        Whether all documents of one side are among the other's, some under other doc_ids.
    """

    missing: tuple[Any, ...]
    changed: tuple[Any, ...]
    new: tuple[Any, ...]
    same: tuple[Any, ...]
    renumbered: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class ItemBank:
    """The calibrated items of a benchmark, with their provenance.

    Attributes
    ----------
    method : str
        Name of the method that the parameters belong to.
    doc_ids : tuple of int or tuple of str
        Every item of the benchmark, ascending: the *bank order*.
    kept : ndarray of bool, shape (n_items,)
        Whether each item may be asked; calibration may have removed some.
    parameters : dict of str to ndarray
        Arrays whose first axis is the items; NaN where an item has no value.
    constants : dict
        Constants of the whole bank (the noise ``k``, the prior, ...).
    scale : Scale
        Scale of raw scores; parameters are for scores on [0, 1], higher is better.
    metric, task, filter : str or None
        The scored metric, task and filter, if known.
    doc_hashes : tuple of (str or None), or None
        Hash of each document as the harness computes it.
    prompts : tuple of (str or None), or None
        Mark (a short hash) of each item's prompt; None if unknown.
    models : tuple of str
        The calibration models.
    settings, provenance, self_check : dict
        Evaluation settings of the calibration scores; where they came from; how well the bank
        predicts models left out of its calibration.
    warnings : tuple of str
        Warnings for the user of the bank, in plain words.
    observations : tuple of Observation
        The scores of each model, and how its items were chosen; empty if the bank does not keep
        scores.
    made : str or None
        Date of the calibration or of the latest update, ISO 8601; not part of `sha256`.

    Examples
    --------
    >>> bank = ItemBank.blank(["q1", "q2"], task="quiz", metric="f1")
    >>> bank.doc_ids, bank.method, bank.n_items
    (('q1', 'q2'), 'sample', 2)
    """

    method: str
    doc_ids: tuple[Any, ...]
    kept: NDArray[np.bool_]
    parameters: dict[str, Floats]
    constants: dict[str, Any]
    scale: Scale
    metric: str = "score"
    task: str | None = None
    filter: str | None = None
    doc_hashes: tuple[str | None, ...] | None = None
    prompts: tuple[str | None, ...] | None = None
    models: tuple[str, ...] = ()
    settings: dict[str, object] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    self_check: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    observations: tuple[Observation, ...] = ()
    made: str | None = None

    @property
    def n_items(self) -> int:
        """Number of items of the benchmark, removed ones included."""
        return len(self.doc_ids)

    @cached_property
    def index(self) -> dict[Any, int]:
        """Position of each doc_id in bank order."""
        return {doc_id: i for i, doc_id in enumerate(self.doc_ids)}

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the bank's content; banks that behave identically have the same one."""
        return bank_file.checksum(self._content())

    @property
    def tokens(self) -> tuple[float, float] | None:
        """Mean tokens of an item, read and written; None if the bank does not state them."""
        match self.provenance.get("tokens"):
            case {"input": int() | float() as read, "output": int() | float() as written}:
                return (read, written) if 0 <= min(read, written) <= LARGEST else None
        return None

    @property
    def short_hash(self) -> str:
        """First 12 hex digits of `sha256`, as shown in signatures."""
        return self.sha256[:12]

    @property
    def marks(self) -> dict[Any, str | None]:
        """Mark of each item's prompt by doc_id; empty if none is known."""
        return dict(zip(self.doc_ids, self.prompts or ()))

    @property
    def prompts_digest(self) -> str | None:
        """Digest of the prompts; None if none is known."""
        return digest_of(self.prompts or ())

    def in_order(self, doc_ids: Sequence[Any], scores: Floats) -> Floats:
        """Return rows of scores in bank order; NaN where the bank's item is not among `doc_ids`.

        Examples
        --------
        >>> ItemBank.blank([0, 1]).in_order([1, 2], np.array([[0.5, 0.7]])).tolist()
        [[nan, 0.5]]
        """
        columns = [n for n, doc_id in enumerate(doc_ids) if doc_id in self.index]
        in_bank = [self.index[doc_ids[n]] for n in columns]
        ordered = np.full((len(scores), self.n_items), np.nan)
        ordered[:, in_bank] = scores[:, columns]
        return ordered

    def compare(
        self, doc_ids: Sequence[Any], hashes: Sequence[str | None] | None
    ) -> DocumentComparison:
        """Compare the documents of a task, or of some scores, with all of the bank's, kept or not.

        Parameters
        ----------
        doc_ids : sequence
            Those of the task or of the scores.
        hashes : sequence of (str or None), or None
            In the order of `doc_ids`. Without any, only `missing` and `new` can be filled.

        Examples
        --------
        >>> bank = ItemBank.blank([0, 1, 2], doc_hashes=["a", "b", "c"])
        >>> bank.compare([1, 2, 3], ["b", "x", "d"])
        DocumentComparison(missing=(0,), changed=(2,), new=(3,), same=(1,), renumbered=False)
        """
        hash_in_task = dict(zip(doc_ids, hashes or [None] * len(doc_ids)))
        hash_in_bank = dict(zip(self.doc_ids, self.doc_hashes or [None] * self.n_items))
        # Only documents whose hash both sides know are the same or changed.
        is_same = {
            doc_id: hash_ == hash_in_task[doc_id]
            for doc_id, hash_ in hash_in_bank.items()
            if hash_ is not None and hash_in_task.get(doc_id) is not None
        }
        return DocumentComparison(
            missing=tuple(doc_id for doc_id in self.doc_ids if doc_id not in hash_in_task),
            changed=tuple(doc_id for doc_id, same in is_same.items() if not same),
            new=tuple(doc_id for doc_id in doc_ids if doc_id not in self.index),
            same=tuple(doc_id for doc_id, same in is_same.items() if same),
            # All documents of the smaller side are in the other, some under other doc_ids; either
            # side may be the smaller.
            renumbered=bool(
                renumbered(hash_in_task, hash_in_bank) or renumbered(hash_in_bank, hash_in_task)
            ),
        )

    def __repr__(self) -> str:
        subject = f"{self.task or 'task not stated'}, {self.metric}"
        n_kept = int(self.kept.sum())
        return (
            f"<ItemBank: {subject}, method {self.method}, {n_kept} of {self.n_items} items kept, "
            f"{len(self.models)} models, {self.short_hash}>"
        )

    @classmethod
    def blank(
        cls,
        doc_ids: Sequence[DocId],
        *,
        task: str | None = None,
        metric: str = "score",
        filter: str | None = None,
        scale: Scale | None = None,
        doc_hashes: Sequence[str | None] | None = None,
        prompts: Sequence[str | None] | None = None,
        settings: Mapping[str, Any] | None = None,
        method: str = "sample",
    ) -> ItemBank:
        """Make a bank that only lists its items, without calibration or parameters.

        Parameters
        ----------
        doc_ids : sequence of int or sequence of str
            In any order.
        task, metric, filter : str, optional
        scale : Scale, optional
            Scale of raw scores; default that of the metric if known, else [0, 1].
        doc_hashes, prompts : sequence of (str or None), optional
            In the order of `doc_ids`.
        settings : mapping, optional
            Evaluation settings that a run must have.
        method : str, optional
            A method that needs no calibration.

        Raises
        ------
        ScoreTableError
            `doc_ids` have different types, or one appears twice.

        Examples
        --------
        >>> bank = ItemBank.blank(range(3), task="t", metric="bleu")
        >>> bank.n_items, bank.method, bank.scale.high
        (3, 'sample', 100.0)
        """
        # A text is a sequence, too, of letters.
        if isinstance(doc_ids, (int, str)):
            raise BankError(f"doc_ids are a sequence, such as range(100), not {doc_ids!r:.60}")
        ids, order = sorted_ids(list(doc_ids))
        if not ids:
            raise BankError("a bank needs at least one item")
        # Hashes and prompts follow the items into bank order.
        identities = {"doc_hashes": doc_hashes, "prompts": prompts}
        identity: dict[str, Any] = {}
        for name, values in identities.items():
            if values is not None and len(values) != len(ids):
                raise BankError(f"{len(values)} {name} do not fit {len(ids)} doc_ids")
            identity[name] = None if values is None else tuple(values[i] for i in order)
        return cls(
            method=method,
            doc_ids=ids,
            kept=np.ones(len(ids), dtype=bool),
            parameters={},
            constants={},
            scale=scale or known_scale(metric, task=task or "") or Scale(),
            metric=metric,
            task=task,
            filter=filter,
            settings=dict(settings or {}),
            **identity,
            provenance={"package": __version__},
        )

    # -- file -----------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the bank to one JSON file, which it replaces atomically.

        The file is compressed if its name ends with ``.gz``.

        Raises
        ------
        BankError
            The file cannot be written.

        Examples
        --------
        >>> ItemBank.blank(range(3)).save("blank.bank.json")
        """
        path = Path(path)
        content = self._content()
        # As the content is at hand, `sha256` need not make it again, which takes seconds of a large
        # bank.
        self.__dict__["sha256"] = bank_file.checksum(content)
        head = {"format": bank_file.FORMAT, "version": bank_file.VERSION, "sha256": self.sha256}
        if self.made is not None:
            head["made"] = self.made
        bank_file.write_file(path, head | content)

    @classmethod
    def load(cls, path: str | Path) -> ItemBank:
        """Read a bank; reading never executes anything in the file.

        Parameters
        ----------
        path : path or str
            A file, or as a str the name of a public bank (``mmlu_pro``) or of one on the hub:
            ``hub:owner/name[@revision]``.

        Raises
        ------
        UsageError
            There is no such file, or a public bank has the same name as one here.
        BankError
            The hub does not provide it, or it is damaged, not a bank, or of a version this package
            cannot read.

        Examples
        --------
        >>> ItemBank.blank(range(3)).save("blank.bank.json")
        >>> ItemBank.load("blank.bank.json").doc_ids
        (0, 1, 2)
        """
        path = bank_file.located(path)
        try:
            document = bank_file.read_json(path)
        except FileNotFoundError:
            raise UsageError(
                f"{path}: no such item bank"
                + (
                    near_path(path)
                    or "; `lm-eval-ccat bank list` names those at hand, `calibrate` makes one"
                )
            ) from None
        # It cannot be read, is no text or no JSON (both a ValueError), or is nested too deeply.
        except (OSError, ValueError, RecursionError) as e:
            raise BankError(
                f"{path}: not a readable item bank ({short(e, 200)}); get it again or calibrate "
                "again"
            ) from None
        return cls.from_dict(document, where=str(path))

    @classmethod
    def from_dict(cls, document: Any, where: str = "bank") -> ItemBank:
        """Build a bank from the parsed file, checking every part.

        Parameters
        ----------
        document : JSON value
        where : str, optional
            Name of the file, for error messages.

        Raises
        ------
        BankError
            A part is missing or has the wrong type or size, or the checksum does not match.

        Examples
        --------
        >>> import json
        >>> ItemBank.blank(range(3)).save("blank.bank.json")
        >>> with open("blank.bank.json") as file:
        ...     ItemBank.from_dict(json.load(file)).n_items
        3
        """
        bank_file.require_sound(document, where)
        try:
            bank = cls(**_fields_of(document))
        except KeyError as e:
            raise BankError(f"{where}: damaged item bank ({e.args[0]!r} is missing)") from None
        except (TypeError, ValueError, AttributeError, OverflowError,
                ScaleError, ScoreTableError) as e:  # fmt: skip
            what = short(e, 200) or type(e).__name__
            raise BankError(f"{where}: damaged item bank ({what})") from None
        # The checksum of a file with parts that are not read here is not that of what is kept.
        if document.keys() <= {*bank_file.HEAD, *_PARTS, "observations", "items"}:
            bank.__dict__["sha256"] = document["sha256"]
        return bank

    def _content(self) -> dict[str, object]:
        """Return the content as JSON values."""
        content = {name: bank_file.plain(getattr(self, name)) for name in _PARTS}
        content["scale"] = self.scale.to_dict()
        if self.observations:
            content["observations"] = [observation.to_dict() for observation in self.observations]
        content["items"] = {
            "doc_id": list(self.doc_ids),
            "doc_hash": None if self.doc_hashes is None else list(self.doc_hashes),
            **({"prompt_hash": list(self.prompts)} if self.prompts else {}),
            "kept": self.kept.tolist(),
            "parameters": bank_file.plain(self.parameters),
        }
        return content


def _fields_of(content: dict[str, Any]) -> dict[str, Any]:
    """Read the arguments of `ItemBank` from the parsed file.

    Raises
    ------
    KeyError, TypeError, ValueError, AttributeError, OverflowError, ScaleError, ScoreTableError
        A part is missing, of the wrong type or size, or makes no sense.
    """
    items = content["items"]
    doc_ids, order = sorted_ids(_list(items["doc_id"], "doc_id"))
    n = len(doc_ids)
    # Every array goes by this order.
    if order != list(range(n)):
        raise ValueError("items.doc_id is not ascending")
    kept_flags = _list(items["kept"], "kept", n)
    if not all(isinstance(flag, bool) for flag in kept_flags) or not any(kept_flags):
        raise ValueError("kept holds something else than true and false, or no item is kept")
    is_kept = np.array(kept_flags)
    fields: dict[str, Any] = {
        "doc_ids": doc_ids,
        "kept": is_kept,
        "parameters": _parameters_of(items["parameters"], is_kept),
        "scale": Scale.from_dict(content["scale"]),
        "doc_hashes": _texts_of(items, "doc_hash", n),
        "prompts": _texts_of(items, "prompt_hash", n),
        "observations": tuple(
            Observation.from_dict(observation, n)
            for observation in content.get("observations") or ()
        ),
    }
    for name in ("constants", "settings", "provenance", "self_check"):
        if not isinstance(content[name], dict):
            raise ValueError(f"{name} is not an object")
        fields[name] = content[name]
    for name in ("method", "metric"):
        fields[name] = _text(content[name], name)
    for name in ("task", "filter", "made"):
        fields[name] = None if content.get(name) is None else _text(content[name], name)
    for name in ("models", "warnings"):
        fields[name] = tuple(_text(value, name) for value in _list(content[name], name))
    return fields


def _parameters_of(columns: dict[str, Any], kept_items: NDArray[np.bool_]) -> dict[str, Floats]:
    """Read the items' parameters; those of items that are kept are numbers."""
    parameters: dict[str, Floats] = {}
    for name, column in columns.items():
        # None becomes NaN; ragged or text raises.
        values = np.array(_list(column, name, len(kept_items)), dtype=np.float64)
        if values.ndim > 2:
            raise ValueError(f"{name} has too many dimensions")
        if not np.isfinite(values[kept_items]).all():
            raise ValueError(f"parameter {name} of an item that is kept is not a number")
        if np.abs(values[np.isfinite(values)]).max(initial=0.0) > LARGEST:
            raise ValueError(f"parameter {name} is absurdly large")
        parameters[_text(name, "parameter")] = values
    return parameters


def _texts_of(items: dict[str, Any], column: str, n: int) -> tuple[str | None, ...] | None:
    """Read a column of texts, each of which may be unknown; None if there is no such column."""
    texts = items.get(column)
    if texts is None:
        return None
    if not all(text is None or isinstance(text, str) for text in texts):
        raise ValueError(f"items.{column} does not fit the items")
    return tuple(_list(texts, column, n))


def _list(values: Any, name: str, n: int | None = None) -> list[Any]:
    """Return a value of a file that has to be a list, of `n` values if that is stated."""
    if not isinstance(values, list) or n not in (None, len(values)):
        raise ValueError(f"{name} is not a list" + ("" if n is None else f" of {n} values"))
    return values


def _text(value: Any, what: str) -> str:
    """Return a value of a file that has to be a text of limited length."""
    if not isinstance(value, str) or len(value) > _MAX_LETTERS:
        raise ValueError(f"{what} is not a text")
    return value


def family_of(model: str) -> str:
    """Return the family in a model's name: the part before the first separator or digit.

    Examples
    --------
    >>> family_of("Qwen2.5-72B-instruct"), family_of("org/llama-3")
    ('qwen', 'llama')
    """
    name = model.rsplit("/", 1)[-1].lower()
    return re.split(r"[-_ .:0-9]", name)[0] or name
