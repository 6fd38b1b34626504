"""What an adaptive run is told: its banks, when to stop, how many documents at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ..bank import ItemBank, is_suite
from ..errors import BankError, HarnessError, UsageError
from ..harness.prices import Price
from .config import BUDGET_KINDS, ModelConfig, RankConfig
from .known import KnownResults
from .outcomes import Bank, task_of, tasks_of_suite
from .prior import parse_prior
from .weights import parse_metrics

#: The name of the one model in its ranking.
MODEL = "model"
#: Standard error at which a run stops that is told of nothing else to stop by: an interval of
#: about 4 points of 100 to either side.
TARGET_SE = 0.02
#: Items before the standard error is believed.
WARMUP = 10


@dataclass(frozen=True)
class AdaptiveOptions:
    """Settings of adaptive runs, for every task of one evaluation.

    Parameters
    ----------
    bank : ItemBank, path, or mapping of task name to either, optional
        A path may be a bank or a directory of banks. Without one the documents are drawn at
        random (method "sample").
    target_se : float, optional
        Stop once the standard error of the estimate, on the [0, 1] scale whatever the metric's
        own (so 0.01 is one point of BLEU), is at most this. Of a group with a score of its own it
        is that score's error. Default 0.02 where there is no `max_items`, `budget` or
        `leaderboard` to stop by.
    max_items : int, optional
        Most documents per task, which the tasks of a group share. With at least as many as the
        task has, and no other rule, every document is run and the result is that of a full run.
    budget : mapping, optional
        One of ``{"items": n}``, ``{"usd": x}``, ``{"seconds": s}``, for all tasks together.
    metrics : str, list of str or mapping, optional
        What to estimate of each answer, with weights that say what to stop by
        (``{"bleu": 1, "chrf": 0}``); default the bank's metric, else the task's first.
    prior : path or list of path, optional
        Earlier answers of the model (harness logs with samples, or a run directory): where the
        run comes to their documents they are scored in place of new ones.
    save_bank : path, optional
        File of a bank that grows by what the run observes; a folder of banks for several tasks.
    price : mapping, optional
        What the model costs: ``input`` and ``output`` ($ per million tokens), ``item``, ``hour``;
        needed for a budget in dollars.
    batch_size : int or "auto", optional
        Documents at a time; default ``"auto"``, what the model takes at once.
    confidence : float, optional
        Of the interval that is reported.
    seed : int, optional
    audit : float, optional
        Share of the documents, in [0, 1), that is drawn at random; from them an estimate is
        reported that holds whatever the response model gets wrong. A method that draws by itself
        draws no more.
    exposure : int, optional
        Draw each document at random among this many most informative ones.
    leaderboard : path, ScoreTable, or mapping of task name to either, optional
        Full results of other models: each task is run until the model's place among them is
        decided.
    rank_width : int, optional
        With full results of others: until its rank is known to so many ranks instead.
    percentile : float, optional
        Until its rank is known to so many per cent of the board.
    known_sampled : bool, optional
        Whether the documents count as a sample of a larger population, so that the full results of
        others have a sampling error, too.
    run_dir : path, optional
        Where the journal is kept; None keeps it in memory.
    resume : bool, optional
        Go on with what `run_dir` holds.
    """

    bank: Any = None
    target_se: float | None = None
    max_items: int | None = None
    budget: Mapping[str, float] | None = None
    price: Mapping[str, float] | None = None
    batch_size: int | str | None = None
    confidence: float = 0.95
    seed: int = 0
    audit: float = 0.0
    exposure: int = 1
    leaderboard: Any = None
    rank_width: int | None = None
    percentile: float | None = None
    known_sampled: bool = False
    metrics: Any = None
    prior: Any = None
    save_bank: Any = None
    run_dir: Any = None
    resume: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "leaderboard", KnownResults.of(self.leaderboard))
        object.__setattr__(self, "metrics", parse_metrics(self.metrics) or {})
        object.__setattr__(self, "prior", parse_prior(self.prior) or {})
        _positive(self.target_se, "target_se")
        _positive(self.percentile, "percentile")
        for name in ("rank_width", "percentile", "known_sampled"):
            if getattr(self, name) and self.leaderboard is None:
                raise UsageError(f"{name} is of a place among full results; it needs leaderboard")
        if self.target_se is not None and self.target_se > 0.5:
            raise UsageError(
                f"target_se {self.target_se:g} is on the [0, 1] scale, where no standard error "
                "exceeds 0.5; one point of a metric on 0 to 100 is 0.01"
            )
        if self.batch_size == "auto":
            object.__setattr__(self, "batch_size", None)
        for name in ("max_items", "batch_size", "exposure", "rank_width"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise UsageError(f"{name} must be a whole number of at least 1, not {value!r}")
        if not 0.0 <= self.audit < 1.0:
            raise UsageError(f"audit is a share in [0, 1), not {self.audit!r}")
        if not 0.5 <= self.confidence < 1.0:
            raise UsageError(f"confidence must be in [0.5, 1), not {self.confidence!r}")
        if self.budget is not None:
            if len(self.budget) != 1 or set(self.budget) - set(BUDGET_KINDS):
                kinds = ", ".join(BUDGET_KINDS)
                raise UsageError(f"a budget is one of {kinds}, not {', '.join(self.budget)}")
            _positive(next(iter(self.budget.values())), "budget")
            if "usd" in self.budget and not self.model_price.known:
                raise UsageError(
                    "a budget in usd needs the model's price: --price input=... output=..."
                )

    @property
    def unbounded(self) -> bool:
        """Whether nothing was said of when to stop."""
        rules = (self.target_se, self.max_items, self.budget or None, self.leaderboard)
        return all(rule is None for rule in rules)

    @property
    def target(self) -> float | None:
        """The standard error to stop at, on [0, 1]; None for other rules alone."""
        return TARGET_SE if self.unbounded else self.target_se

    @property
    def model_price(self) -> Price:
        """The price as an object that can tell a document's cost."""
        return Price.parse(self.price, "price")

    def config(self, task: str, budget: Mapping[str, float], tasks: int = 1) -> RankConfig:
        """The configuration of a ranking of this one model.

        Parameters
        ----------
        task : str
        budget : mapping
            This ranking's part of the budget.
        tasks : int
            How many tasks are ranked together, by their common score.
        """
        limits = [WARMUP]
        if self.max_items is not None:
            limits.append(self.max_items)
        if "items" in budget:
            # A first look at every task, on at most half the budget where there are several.
            limits.append(int(budget["items"]) // (1 if tasks == 1 else 2 * tasks))
        elif "usd" in budget:
            limits.append(0)  # the paper's warm-up knows no budget
        return RankConfig(
            task=task,
            bank="",
            models=(ModelConfig(MODEL, None, price=self.model_price),),
            confidence=self.confidence,
            budget=dict(budget),
            warmup=min(limits),
            max_items=None if self.max_items is None else self.max_items * tasks,
            seed=self.seed,
            stop_when_decided=tasks == 1 or self.target is not None,
            audit=self.audit,
            exposure=self.exposure,
            target_se=self.target,
            rank_width=self.rank_width,
            percentile=self.percentile,
            metrics=dict(self.metrics),
        )

    def require_files(self) -> None:
        """Refuse banks and full results that cannot be read, before a model is loaded.

        Raises
        ------
        BankError
            A bank is missing or damaged, or a directory holds none.
        ScoreTableError, ScaleError, UsageError
            See `KnownResults.of_task`.
        """
        if self.bank is None:
            return
        several = isinstance(self.bank, Mapping)
        for task, bank in self.bank.items() if several else [(None, self.bank)]:
            if isinstance(bank, (str, Path)):
                if Path(bank).is_dir():
                    _require_banks(Path(bank))
                    continue  # which of its banks are meant, the tasks say
                bank = ItemBank.load(bank)
            if self.leaderboard is not None:
                self.leaderboard.of_task(task or bank.task or "", bank)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], folder: Path | None = None) -> AdaptiveOptions:
        """Read options as ``--metadata '{"adaptive": {...}}'`` and ``adaptive=`` give them.

        Parameters
        ----------
        values : mapping
            The fields by name; ``budget_items``, ``budget_seconds`` and ``adaptive_batch_size``
            as the flags call them are taken as well.
        folder : Path, optional
            Where a relative bank path is looked up when it is not found from the working
            directory.

        Raises
        ------
        UsageError
            An unknown key, or a value out of range.
        """
        given = dict(values)
        for kind in BUDGET_KINDS:
            amount = given.pop(f"budget_{kind}", None)
            if amount is not None:
                given["budget"] = {**(given.get("budget") or {}), kind: amount}
        if "adaptive_batch_size" in given:
            given["batch_size"] = given.pop("adaptive_batch_size")
        known = [f.name for f in fields(cls)]
        for key in given:
            if key not in known:
                raise UsageError(f"unknown adaptive option {key!r}; known: {', '.join(known)}")
        if folder is not None:
            for key in ("bank", "leaderboard"):
                given[key] = _found(given.get(key), folder)
        return cls(**given)

    def bank_for(self, task: str, only_task: bool) -> Bank | None:
        """The bank of a task, or None when there is none for it.

        Where several metrics are estimated it may be a folder with a bank of each.

        Parameters
        ----------
        task : str
        only_task : bool
            Whether it is the only task; a single bank is then meant for it, whatever task it
            names, and compared with it later.

        Raises
        ------
        BankError
            A file is missing or damaged.
        UsageError
            A directory holds two banks of the task.
        """
        bank = self.bank
        if bank is None:
            return None
        if isinstance(bank, Mapping):
            if task not in bank:
                return None
            bank, only_task = bank[task], True
        if isinstance(bank, ItemBank):
            return bank if only_task or bank.task == task else None
        path = Path(bank)
        if not path.is_dir():
            loaded = ItemBank.load(path)
            return loaded if only_task or loaded.task == task else None
        if is_suite(path):
            return path if task in tasks_of_suite(path) else None
        found = [file for file in sorted(path.glob("*.json")) if task_of(file) == task]
        if found and self.metrics:
            return path
        if len(found) > 1:
            names = ", ".join(file.name for file in found)
            raise UsageError(f"{path} holds {len(found)} banks of task {task} ({names}); name one")
        return ItemBank.load(found[0]) if found else None


def require_bank(bank: Bank | None, task: str) -> Bank:
    """The bank, or an error that says how to give one."""
    if bank is None:
        raise HarnessError(
            f"no bank for task {task}; give one with --bank {task}=FILE, or run the task without "
            "--adaptive"
        )
    return bank


def parse_banks(values: list[str]) -> str | dict[str, str]:
    """Read the arguments of ``--bank``: one path, or ``TASK=FILE`` once per task.

    >>> parse_banks(["a.bank.json"])
    'a.bank.json'
    >>> parse_banks(["a=a.json", "b=b.json"])
    {'a': 'a.json', 'b': 'b.json'}

    Raises
    ------
    UsageError
        Several paths without task names, or a task named twice.
    """
    if len(values) == 1 and ("=" not in values[0] or Path(values[0]).exists()):
        return values[0]
    banks: dict[str, str] = {}
    for value in values:
        task, equals, file = value.partition("=")
        if not (task and equals and file):
            raise UsageError(f"--bank {value!r}: with several banks, write each as TASK=FILE")
        if task in banks:
            raise UsageError(f"--bank names task {task!r} twice")
        banks[task] = file
    return banks


def _require_banks(folder: Path) -> None:
    if not any(task_of(file) for file in folder.glob("*.json")):
        raise BankError(
            f"{folder} holds no item bank (a .json file that names its task); name a bank file, "
            "or make one with `lm-eval-ccat calibrate`"
        )


def _found(bank: Any, folder: Path) -> Any:
    if isinstance(bank, Mapping):
        return {task: _found(one, folder) for task, one in bank.items()}
    if isinstance(bank, str) and not Path(bank).exists() and (folder / bank).exists():
        return str(folder / bank)
    return bank


def _positive(value: Any, name: str) -> None:
    if value is None:
        return
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value <= 0:
        raise UsageError(f"{name} must be a number above 0, not {value!r}")
