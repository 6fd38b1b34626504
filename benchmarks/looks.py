"""How often equal models are called different, and how many real pairs are decided.

``python benchmarks/looks.py --data FOLDER`` replays score tables through `Ranker`, one answer at a
time, until what is ranked is decided or every model has 200 items. "Equal" models are made of real
ones whose scores are exchanged item by item, at random, so that their full means balance; "real"
are those as they are. After each fold it prints what every world has shown so far, with standard
errors over rankings of one table and fold, which share their bank.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.metrics.scale import Floats

#: Score tables (file, metric) whose models all have every score; those of a line are ranked as one.
TABLES = (
    (("wmt24_en-de", "bleu"),),
    (("zeroeval_gsm", "acc"),),
    (("wildbench_v20522_gpt4turbo", "judge_score"),),
    (("wmt24_en-de", "chrf"),),
)
SUMS = ((("wmt24_en-de", "bleu"), ("wmt24_en-es", "bleu")),)
MOST, N_ITEMS, HELD = 200, 800, 6
#: Items of each model where intervals are looked at, and parts of them that fail.
AT, FAILED = 100, (0.0, 0.1, 0.3)


@dataclass(frozen=True)
class Field:
    """Banks of the tasks, scores of models that these have not seen, and a seed."""

    banks: Mapping[str, ItemBank]
    scores: Mapping[str, Floats]
    seed: int

    def of(self, *models: int) -> Field:
        """Of these models alone."""
        return Field(self.banks, {t: y[list(models)] for t, y in self.scores.items()}, self.seed)

    def equal(self, rng: np.random.Generator) -> Field:
        """With the scores of an item exchanged between the models until their means balance."""
        return Field(self.banks, {t: exchanged(y, rng) for t, y in self.scores.items()}, self.seed)

    @property
    def means(self) -> Floats:
        """Full means, tasks alike."""
        return np.asarray(np.mean([y.mean(axis=1) for y in self.scores.values()], axis=0))


def exchanged(y: Floats, rng: np.random.Generator) -> Floats:
    """Scores exchanged between models, item by item, at random, until all means are equal."""
    out = rng.permuted(y, axis=0)
    for _ in range(3):
        for a, b in combinations(range(len(y)), 2):
            gap = out[a] - out[b]
            total = float(gap.sum())
            for i in rng.permutation(gap.size):
                if abs(total - 2.0 * gap[i]) < abs(total):
                    out[a, i], out[b, i] = out[b, i], out[a, i]
                    total -= 2.0 * float(gap[i])
                    gap[i] = -gap[i]
    return out


def failures(y: Floats, part: float, by_score: bool, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which answers fail: a part of them at random, or the more the lower the score."""
    chance = np.full(y.shape, part)
    if by_score:
        chance = 2.0 * part * (1.0 - (rankdata(y, axis=1) - 0.5) / y.shape[1])
    return np.asarray(rng.random(y.shape) < chance)


@dataclass(frozen=True)
class Played:
    """A ranking that was played, and whether any pair was ever decided or equivalent in it."""

    ranker: Ranker
    decided: bool
    equivalent: bool
    items: int

    @property
    def sign(self) -> int:
        """Of the first model less the second, in the end."""
        return int(self.ranker.verdicts.sign[0, 1])


def played(
    field: Field, *, until: bool = False, fails: Mapping[str, NDArray[np.bool_]] | None = None,
    n_models: int | None = None, **options: Any,
) -> Played:  # fmt: skip
    """Rank; `until` any pair is decided or equivalent, whatever is still to be asked."""
    one = len(field.banks) == 1
    first = next(iter(field.banks))
    m = n_models or len(field.scores[first])
    bank = field.banks[first] if one else dict(field.banks)
    ranker = Ranker(bank, {f"n{j}": 1.0 for j in range(m)}, seed=field.seed, **options)  # type: ignore[arg-type]
    had, decided, equivalent = [0] * m, False, False
    while not ranker.done and min(had) < MOST and not (until and (decided or equivalent)):
        for model, item in ranker.ask(1):
            j = int(model[1:])
            task, doc = (first, item) if one else item
            i = field.banks[task].index[doc]
            had[j] += 1
            if fails is not None and fails[task][j, i]:
                ranker.fail(model, item, "no answer")
            else:
                ranker.tell(model, item, float(field.scores[task][j, i]))
        if min(had) >= 10:
            found = ranker.verdicts
            decided = decided or bool(found.sign.any())
            equivalent = equivalent or bool((found.state == 2).any())
    return Played(ranker, decided, equivalent, max(had))


# -- worlds: what is played on a field, and what it shows ------------------------------------------

Seen = dict[str, list[float]]
HORIZON = {"max_items": MOST}


def two(field: Field, rng: np.random.Generator, **options: Any) -> Seen:
    """Pairs, up to a horizon."""
    seen: Seen = defaultdict(list)
    for a in range(0, HELD, 2):
        pair = field.of(a, a + 1)
        seen["equal called different"].append(played(pair.equal(rng), **options).decided)
        real = played(pair, **options)
        seen["real decided"].append(real.sign != 0)
        seen["items"].append(real.items)
        if real.sign:
            seen["of these wrong"].append(real.sign * np.subtract(*pair.means) < 0.0)
    return seen


def four(field: Field, rng: np.random.Generator, **options: Any) -> Seen:
    """Four models, familywise: the first ones and the last."""
    seen: Seen = defaultdict(list)
    for at in (range(4), range(HELD - 4, HELD)):
        of = field.of(*at)
        equal = played(of.equal(rng), until=True, familywise=True, **options)
        found = played(of, familywise=True, **options).ranker.verdicts
        gap = of.means[:, None] - of.means
        upper = np.triu_indices(4, 1)
        sign = found.sign[upper]
        seen["any equal pair called different"].append(equal.decided)
        seen["real decided"] += list(sign != 0)
        seen["any real pair wrong"].append(bool((sign * gap[upper] < 0.0).any()))
    return seen


def references(field: Field, rng: np.random.Generator, **options: Any) -> Seen:
    """A newcomer that equals one of five models whose means are known."""
    seen: Seen = defaultdict(list)
    for a in range(0, HELD, 2):
        pair = field.of(a, a + 1).equal(rng)
        rest = field.of(*(j for j in range(HELD) if j not in (a, a + 1)))
        means = [float(v) for v in (pair.means[1], *rest.means)]
        known = {f"r{k}": v for k, v in enumerate(means)}
        found = played(pair, n_models=1, known=known, **options).ranker.verdicts
        for name, sign in zip(found.names[1:], found.sign[0, 1:]):
            gap = float(pair.means[0]) - known[name]
            if name == "r0":
                seen["called different from its equal"].append(sign != 0)
            else:
                seen["others decided"].append(sign != 0)
                seen["of these wrong"] += [sign * gap < 0.0] * bool(sign)
    return seen


def near(field: Field, rng: np.random.Generator, **options: Any) -> Seen:
    """``min_difference``: the true difference, which is then no equivalence; or a part of it."""
    seen: Seen = defaultdict(list)
    for a in range(0, HELD, 2):
        pair = field.of(a, a + 1)
        gap = abs(float(np.subtract(*pair.means)))
        if gap > 0.0:
            found = played(pair, until=True, min_difference=gap, **options)
            seen["falsely equivalent"].append(found.equivalent)
        found = played(pair.equal(rng), min_difference=0.02, **options)
        seen["equal called different"].append(found.decided)
        seen["equal called equivalent within .02"].append(found.equivalent)
    return seen


def failing(field: Field, rng: np.random.Generator, **options: Any) -> Seen:
    """Answers that fail, at random or the more the lower the score; of equal models only one's."""
    seen: Seen = defaultdict(list)
    task = next(iter(field.scores))
    for part in FAILED:
        for by_score in (False, True)[: 2 if part else 1]:
            at = f"{part:.0%} fail" + (" by score" if by_score else " at random" if part else "")
            fails = {task: failures(field.scores[task], part, by_score, rng)}
            ranker = played(field, fails=fails, max_items=AT, stop="limits").ranker
            result, truth = ranker.result(), field.means
            for row in result.models:
                j, plain = int(row.name[1:]), replace(row.estimate, failure_bias=0.0)
                for what, (low, high) in (
                    ("covered", row.interval),
                    ("covered if failures were random", plain.interval(result.confidence)),
                    ("within the bound", row.bound or row.interval),
                ):
                    seen[f"{at}: {what}"].append(low <= truth[j] <= high)
                seen[f"{at}: error"].append(row.estimate.mean - truth[j])
                low, high = plain.interval(result.confidence)
                more = (row.interval[1] - row.interval[0]) / max(high - low, 1e-9)
                seen[f"{at}: width against that"].append(more)
            pair = field.of(0, 1).equal(rng)
            fails = {task: failures(pair.scores[task], part, by_score, rng)}
            fails[task][1] = False
            equal = played(pair, fails=fails, **options)
            seen[f"{at}: equal called different"].append(equal.decided)
            real = field.of(2, 3)
            fails = {task: failures(real.scores[task], part, by_score, rng)}
            seen[f"{at}: real decided"].append(played(real, fails=fails, **options).sign != 0)
    return seen


WORLDS: dict[str, tuple[Callable[..., Seen], Any, dict[str, Any]]] = {
    "two models": (two, TABLES, HORIZON),
    "two models without a horizon": (two, TABLES, {}),
    "four models, familywise": (four, TABLES, HORIZON),
    "a newcomer among known models": (references, TABLES, HORIZON),
    "min_difference": (near, TABLES, HORIZON),
    "sum of two tasks": (two, SUMS, {**HORIZON, "weights": "equal"}),
    "failures": (failing, TABLES, HORIZON),
}


def field_of(tables: Any, data: Path, fold: int, method: str) -> Field:
    """Models held out of a calibration on the others, and its banks."""
    read = [ScoreTable.read(data / f"{f}.parquet", metric=metric) for f, metric in tables]
    common = [m for m in read[0].models if all(m in t.models for t in read)]
    order = np.random.default_rng([fold, 5]).permutation(len(common))
    banks, scores = {}, {}
    for (file, metric), table in zip(tables, read):
        unit = np.array(table.scores)
        whole = np.flatnonzero(np.isfinite(unit).all(axis=0))[: N_ITEMS // len(tables)]
        y = unit[[table.models.index(m) for m in common]][:, whole]
        rest = np.sort(order[HELD:])
        name = f"{file} {metric}"
        if method == "sample":
            bank = ItemBank.blank(range(len(whole)), task=file, metric=metric)
        else:
            names = [common[j] for j in rest]
            bank = calibrate(
                ScoreTable.from_arrays(y[rest], names, metric=metric, task=file), method
            )
        banks[name], scores[name] = bank, y[order[:HELD]]
    return Field(banks, scores, fold)


def line(what: str, cells: list[list[float]]) -> str:
    """A mean with its standard error over cells, and of how many values."""
    every = [float(v) for cell in cells for v in cell]
    if not every:
        return f"  {what}: none"
    if any(word in what for word in ("items", "error", "width")):
        return f"  {what}: {np.mean(every):.4g} of {len(every)}"
    n, p = len(every), float(np.mean(every))
    away = [sum(cell) - p * len(cell) for cell in cells]
    error = max(float(np.sqrt(np.sum(np.square(away)))) / n, 0.5 / n)
    return f"  {what}: {100 * p:.1f} +- {100 * error:.1f}% of {n}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/scores"))
    parser.add_argument("--folds", default="0,10", help="first and one after the last")
    parser.add_argument("--methods", default="default")
    parser.add_argument("--worlds", default="", help="parts of names, by commas; default all")
    parser.add_argument("--looks", default="every", choices=("every", "one"))
    given = parser.parse_args()
    wanted = [w for w in WORLDS if any(part in w for part in given.worlds.split(","))]
    first, last = map(int, given.folds.split(","))
    seen: dict[tuple[str, str, str], list[list[float]]] = defaultdict(list)
    for fold in range(first, last):
        for method in given.methods.split(","):
            fields: dict[Any, Field] = {}
            for world in wanted:
                play, groups, options = WORLDS[world]
                for tables in groups:
                    if tables not in fields:
                        fields[tables] = field_of(tables, given.data, fold, method)
                    rng = np.random.default_rng([fold, len(world)])
                    shown = play(fields[tables], rng, looks=given.looks, **options)
                    for what, values in shown.items():
                        seen[method, world, what].append(values)
            print(f"\n{method}, looks {given.looks}, folds {first} to {fold}")
            for world in wanted:
                print(f" {world}")
                for (of, where, what), cells in seen.items():
                    if (of, where) == (method, world):
                        print(line(what, cells))
            print(end="", flush=True)


if __name__ == "__main__":
    main()
