"""Worlds: pairs of new models and the banks that judge them, made of real score tables.

A world says which models of a table calibrate the bank and which pairs are new to it, and may
change their scores: models far above the bank, say, or such as refuse a tenth of the items. Every
pair is played as it is ("real"), and with scores exchanged until its means are the same ("equal").
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as parquet

from benchmarks.looks import exchanged
from benchmarks.quality_data import SHARED, load
from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.bank.bank import family_of
from lm_eval_ccat.metrics.scale import Floats

DATA = SHARED / "data"
#: Most items of a table, of each model on a path, and models that calibrate a bank.
N_ITEMS, LONGEST, CALIBRATING = 1000, 200, 100
#: New models of a table and fold; items of both before the first look.
NEW, FIRST = 6, 10

SCORES = (
    "wmt24_en-de bleu", "wmt24_en-de chrf", "wmt24_en-es bleu", "wmt24_en-es rougeL",
    "wmt24_en-hi chrf", "wmt24_en-uk bleu", "wmt24_en-zh chrf", "wmt23_de-en bleu",
    "mqm_newstest2021_ende mqm", "alpaca_eval2_weighted weighted_winrate",
    "wildbench_v20522_gpt4turbo judge_score", "zeroeval_gsm acc",
)  # fmt: skip
BENCHPRED = ("musr", "arc_challenge", "openllm_math", "gsm", "mmlu")
SUITE = ("gsm8k", "truthfulqa", "mmlu", "winogrande")
#: Tasks whose mean is ranked as one.
SUMS: dict[str, tuple[str, ...]] = {
    "openllm": tuple(f"suite {task}" for task in SUITE),
    "wmt24 bleu": tuple(f"wmt24_en-{to} bleu" for to in ("de", "es", "hi", "uk", "zh")),
    "mmlu_pro": tuple(f"mmlu_pro {s}" for s in ("math", "law", "psychology", "health", "physics")),
}


class Scores(NamedTuple):
    """Scores of models on items, on [0, 1], without a gap."""

    models: list[str]
    values: Floats

    def of(self, models: Sequence[int]) -> Scores:
        """Return the scores of some models alone."""
        return Scores([self.models[j] for j in models], self.values[list(models)])


@cache
def scores_of(name: str) -> Scores:
    """Return a table by its name: file and metric, or set and task."""
    source, _, part = name.partition(" ")
    if source == "benchpred":
        table = parquet.read_table(DATA / "benchpred" / f"{part}.parquet")
        items = [column for column in table.column_names if column.isdigit()]
        values = np.column_stack([table[item].to_numpy() for item in items]).astype(float)
        models = table[table.column_names[-1]].to_pylist()
    elif source == "mmlu_pro":
        table = parquet.read_table(DATA / "mmlu_pro" / "scores.parquet").to_pandas()
        wide = table[table.category == part].pivot_table("score", "model", "question_id")
        models, values = list(wide.index), wide.to_numpy(float)
    else:
        if source == "suite":
            file = DATA / "suite" / f"openllm_{part}.parquet"
            table = ScoreTable.read(file, metric="acc")
        else:
            table = load(source, part)[0]
        models, values = list(table.models), table.model_scores()
    whole = np.isfinite(values).mean(axis=1) > 0.97
    models = [str(model) for model, complete in zip(models, whole) if complete]
    values = values[whole][:, np.isfinite(values[whole]).all(axis=0)]
    few = np.sort(np.random.default_rng(0).permutation(values.shape[1])[:N_ITEMS])
    values = np.clip(values[:, few], 0.0, 1.0)
    _, first = np.unique(values.round(9), axis=0, return_index=True)
    if source in ("suite", "mmlu_pro"):  # tasks of a suite have the same models
        first = np.arange(len(models))
    return Scores(models, values).of(np.sort(first).tolist())


class Case(NamedTuple):
    """What calibrates a bank, and pairs of models that are new to it."""

    bank: Scores
    pairs: list[Floats]  # each of shape (2, n_items)


def _paired(values: Floats, models: Sequence[int]) -> list[Floats]:
    return [values[list(models[k : k + 2])] for k in range(0, len(models) - 1, 2)]


def _split(scores: Scores, new: Sequence[int], calibrating: Sequence[int]) -> Case:
    return Case(scores.of(calibrating[:CALIBRATING]), _paired(scores.values, new))


def _any(scores: Scores, rng: np.random.Generator, calibrating: int = CALIBRATING) -> Case:
    order = rng.permutation(len(scores.models)).tolist()
    n_new = min(NEW, max(2, (len(order) - 8) // 2 * 2))
    return _split(scores, order[:n_new], order[n_new : n_new + calibrating])


def _few(scores: Scores, rng: np.random.Generator) -> Case:
    return _any(scores, rng, 8)


def _beyond(scores: Scores, rng: np.random.Generator, side: int) -> Case:
    order = np.argsort(-side * scores.values.mean(axis=1), kind="stable")
    n = len(order)
    new = rng.permutation(order[: max(2, int(0.3 * n))])[:NEW].tolist()
    return _split(scores, new, rng.permutation(order[n - n // 2 :]).tolist())


def _above(scores: Scores, rng: np.random.Generator) -> Case:
    return _beyond(scores, rng, 1)


def _below(scores: Scores, rng: np.random.Generator) -> Case:
    return _beyond(scores, rng, -1)


def _refusing(scores: Scores, rng: np.random.Generator) -> Case:
    case = _any(scores, rng)
    return Case(case.bank, [pair * (rng.random(pair.shape) > 0.1) for pair in case.pairs])


def _heavy(scores: Scores, rng: np.random.Generator) -> Case:
    return _any(Scores(scores.models, scores.values**6), rng)


def _copies(scores: Scores, rng: np.random.Generator) -> Case:
    case = _any(scores, rng)
    for pair in case.pairs:
        apart = rng.permutation(np.flatnonzero(pair[0] != pair[1]))
        like = np.ones(pair.shape[1], dtype=bool)
        like[apart[: max(10, len(like) // 20)]] = False
        pair[1, like] = pair[0, like]
    return case


def _extreme(scores: Scores, rng: np.random.Generator) -> Case | None:
    mean = scores.values.mean(axis=1)
    sides = [np.flatnonzero(side) for side in (mean >= 0.92, mean <= 0.08)]
    sides = [side for side in sides if len(side) > 1]
    if not sides:
        return None
    new = rng.permutation(sides[int(rng.integers(len(sides)))])[:NEW].tolist()
    return _split(scores, new, [j for j in rng.permutation(len(mean)).tolist() if j not in new])


def _family(scores: Scores, rng: np.random.Generator) -> Case | None:
    families: dict[str, list[int]] = {}
    for j, model in enumerate(scores.models):
        families.setdefault(family_of(model), []).append(j)
    n = len(scores.models)
    usual = [family for family in families.values() if 2 <= len(family) <= n - 8]
    if not usual:
        return None
    family = usual[int(rng.integers(len(usual)))]
    rest = [j for j in rng.permutation(n).tolist() if j not in family]
    return _split(scores, rng.permutation(family)[:NEW].tolist(), rest)


_ONE = (*SCORES, *(f"benchpred {task}" for task in BENCHPRED), *(f"suite {task}" for task in SUITE))
_CONTINUOUS = SCORES[:9]


@dataclass(frozen=True)
class World:
    """How pairs are made, and of which tables."""

    case: Callable[[Scores, np.random.Generator], Case | None]
    tables: tuple[str, ...] = _ONE


WORLDS = {
    "random": World(_any),
    "above": World(_above),
    "below": World(_below),
    "eight": World(_few),
    "family": World(_family),
    "refusing": World(_refusing, _CONTINUOUS),
    "heavy": World(_heavy, _CONTINUOUS),
    "extreme": World(_extreme, ("suite winogrande", "suite gsm8k", "benchpred arc_challenge")),
    "copies": World(_copies),
    "sum": World(_any, tuple(SUMS)),
}


# -- paths ----------------------------------------------------------------------------------------

#: What is recorded of a pair at each look; the first model's before the second's.
COLUMNS = (
    "had_a", "had_b", "gap", "variance", "df", "n", "zero_a", "zero_b",
    "zeros_a", "zeros_b", "mean_a", "mean_b",
    "variance_a", "variance_b", "df_a", "df_b",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Path:
    """A ranking of two models, looked at after every answer.

    Attributes
    ----------
    method, world, table : str
    fold : int
    equal : bool
        Whether the two models have the same mean.
    n_items : int
    truth : ndarray of shape (2,)
    looks : ndarray of shape (n_looks, len(COLUMNS))
    """

    method: str
    world: str
    table: str
    fold: int
    equal: bool
    n_items: int
    truth: Floats
    looks: Floats

    def __getattr__(self, name: str) -> Floats:
        if name not in COLUMNS:
            raise AttributeError(name)
        return np.asarray(self.looks[:, COLUMNS.index(name)], dtype=np.float64)


Banks = Mapping[str, ItemBank]


def played(banks: Banks, pair: Mapping[str, Floats], seed: int, longest: int = 0) -> Floats:
    """Ask two models in turn, and return the looks of their path.

    In turn: the path then depends on no stopping rule, so that each can be read off it.
    """
    tasks = list(banks)
    bank = banks[tasks[0]] if len(tasks) == 1 else dict(banks)
    more = {"weights": "equal"} if len(tasks) > 1 else {}
    n_items = sum(bank.n_items for bank in banks.values())
    cap = min(longest or LONGEST, n_items // 2)
    names = ("a", "b")
    ranker = Ranker(bank, names, max_items=cap, seed=seed, stop="limits", **more)
    looks = []
    for turn in range(2 * cap):
        for model, item in ranker.ask(1, model=names[turn % 2]):
            task, doc = (tasks[0], item) if len(tasks) == 1 else item
            ranker.tell(model, item, float(pair[task][turn % 2, banks[task].index[doc]]))
        if turn + 1 >= 2 * FIRST:
            looks.append(_look(ranker, turn))
    return np.array(looks, dtype=np.float32)


def _look(ranker: Ranker, turn: int) -> tuple[float, ...]:
    belief = ranker.belief()
    scores = belief.on_scores
    return (
        turn // 2 + 1, (turn + 1) // 2, belief.location[0] - belief.location[1],
        belief.variance[0, 1], belief.df[0, 1], belief.n[0, 1],
        *(float(figure) for figure in belief.zero_losses_at(np.array(0), np.array(1))),
        *scores.location,
        *scores.variance.diagonal(), *scores.df.diagonal(),
    )  # fmt: skip


def bank_of(scores: Scores, method: str, task: str) -> ItemBank:
    """Return the bank that some models' scores calibrate; a blank one for `sample`."""
    n_items = scores.values.shape[1]
    if method == "sample":
        return ItemBank.blank(range(n_items), task=task, metric="acc")
    table = ScoreTable.from_arrays(scores.values, scores.models, task=task, metric="acc")
    return calibrate(table, method)


def paths_of(world: str, table: str, fold: int, method: str) -> Iterator[Path]:
    """Play the pairs of a world on a table, each as it is and made equal."""
    rng = np.random.default_rng([fold, *map(ord, world), *map(ord, table)])
    parts = SUMS.get(table, (table,))
    tables = [scores_of(part) for part in parts]
    if len(parts) > 1:
        of_all = set.intersection(*(set(scores.models) for scores in tables))
        common = sorted(of_all)
        tables = [scores.of([scores.models.index(m) for m in common]) for scores in tables]
        few = rng.permutation(len(common))[: NEW + 40].tolist()
        tables = [scores.of(few) for scores in tables]
    state = rng.bit_generator.state
    cases = []
    for scores in tables:
        rng.bit_generator.state = state  # the same models of every task
        cases.append(WORLDS[world].case(scores, rng))
    whole = [case for case in cases if case is not None]
    if len(whole) < len(cases):
        return
    banks = {part: bank_of(case.bank, method, part) for part, case in zip(parts, whole)}
    for k in range(len(whole[0].pairs)):
        pair = {part: case.pairs[k] for part, case in zip(parts, whole)}
        for equal in (True, False):
            of = {task: exchanged(y, rng) if equal else y for task, y in pair.items()}
            truth = np.mean([y.mean(axis=1) for y in of.values()], axis=0)
            n_items = sum(y.shape[1] for y in of.values())
            looks = played(banks, of, 1000 * fold + k)
            yield Path(method, world, table, fold, equal, n_items, truth, looks)


def data_files() -> list[pathlib.Path]:
    """Return the files that worlds are made of."""
    return sorted(p for room in ("scores", "suite", "benchpred") for p in (DATA / room).iterdir())
