"""Rankings recorded earlier say the same now: what was asked, and every figure.

``python tests/ranker/test_golden.py`` (from the project's root) records them anew: do that only
where figures are meant to change, and say in the commit which and why.
"""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, Ranker, Ranking, ScoreTable, calibrate

FILE = Path(__file__).with_name("golden.json.gz")
NAMES = "ABCD"
PRICES = {"A": 1.0, "B": 0.4, "C": 1.6, "D": 1.0}
N_ITEMS = 140
#: File and metric of each table of real scores; "made" tables are drawn by a seed.
TABLES = {
    "bleu": ("wmt24_en-de", "bleu"),
    "chrf": ("wmt24_en-de", "chrf"),
    "gsm": ("zeroeval_gsm", "acc"),
    "made": (None, "f1"),
    "right": (None, "acc"),
}


@dataclass(frozen=True)
class Case:
    """One ranking: where its scores come from, and how it is run."""

    method: str
    tables: tuple[str, ...]
    name: str = "plain"
    options: dict[str, Any] = field(default_factory=dict)
    shape: str = "one"  # of several tables: tasks, or outcomes of one task
    failed: float = 0.0
    moves: bool = False  # release, set aside, take back, add, change
    known: str = ""  # means, scores, sampled scores

    def __str__(self) -> str:
        return f"{self.method}-{'+'.join(self.tables)}-{self.name}"

    @property
    def real(self) -> bool:
        return any(TABLES[t][0] for t in self.tables)


def cases() -> Iterator[Case]:
    """All of them."""
    for m in ("default", "sample", "paper"):
        yield Case(m, ("right",), "failures", {"max_items": 50}, failed=0.2, moves=True)
        yield Case(m, ("made", "right"), "tasks", {"budget": 160.0}, "tasks", known="means")
        yield Case(m, ("bleu",), options={"budget": 90.0})
        yield Case(m, ("gsm",), "moves", {"max_items": 30}, failed=0.15, moves=True)
    for m in ("sample", "paper"):
        yield Case(m, ("bleu", "gsm"), "tasks", {"budget": 120.0}, "tasks", failed=0.05)
    yield Case("paper", ("bleu", "chrf"), "outcomes", {"max_items": 30}, "outcomes", failed=0.05)
    for m in ("default", "paper"):
        yield Case(m, ("gsm",), "references", {"max_items": 40}, known="scores")
    for m in ("default", "sample"):
        yield Case(m, ("bleu",), "familywise", {"familywise": True, "min_difference": 0.02})
        yield Case(m, ("bleu", "chrf"), "outcomes", {"max_items": 40}, "outcomes", failed=0.05)
        yield Case(m, ("bleu",), "sampled", {"budget": 120.0}, known="sampled", failed=0.05)
    yield Case("default", ("bleu", "gsm"), "tasks", {"budget": 200.0}, "tasks", failed=0.05)
    yield Case("paper", ("made",), "exposure", {"exposure": 4, "max_items": 50})
    aim = {"stop": "decided and se 0.02"}
    yield Case("default", ("bleu",), "errors", {"budget": 200.0, **aim})
    yield Case("default", ("gsm",), "ranks", {"stop": "ranks 2", "max_items": 60})
    yield Case("sample", ("right",), "finite", {"guarantee": "finite", "min_difference": 0.1})
    yield Case("sample", ("made",), "single", aim)


# -- what is ranked ------------------------------------------------------------------------------


@cache
def table_of(name: str, data: Path | None) -> tuple[ScoreTable, dict[str, Any]]:
    """Scores of the calibration models, and those of A to D by item."""
    file, metric = TABLES[name]
    if file is None:
        rng = np.random.default_rng([7, len(name)])
        skill = np.r_[[-0.3, 0.1, 0.2, 0.9], np.linspace(-2, 2, 18)][:, None]
        eta = skill * rng.uniform(0.5, 1.5, 120) + rng.normal(size=(22, 120))
        unit = 1.0 / (1.0 + np.exp(-eta - 0.4 * rng.normal(size=(22, 120))))
        unit = (unit > rng.random((22, 120))).astype(float) if name == "right" else unit
    else:
        assert data is not None
        found = ScoreTable.read(data / f"{file}.parquet", metric=metric)
        whole = np.isfinite(found.scores).all(axis=0)
        unit = np.array(found.scores)[:, np.flatnonzero(whole)[:N_ITEMS]]
        order = np.argsort(unit.mean(axis=1), kind="stable")
        unit = unit[order]
        tested = np.array([0.35, 0.5, 0.6, 0.9]) * (len(unit) - 1)
        tested = tested.astype(int)
        unit = np.concatenate([unit[tested], np.delete(unit, tested, axis=0)])
    rest = ScoreTable.from_arrays(
        unit[4:], [f"m{j:02d}" for j in range(len(unit) - 4)], metric=metric, task=name
    )
    return rest, {m: unit[j] for j, m in enumerate(NAMES)}


@cache
def bank_of(method: str, name: str, data: Path | None) -> ItemBank:
    return calibrate(table_of(name, data)[0], method)


def ranker_of(case: Case, data: Path | None) -> Ranker:
    """A fresh ranker."""
    banks: Any = {t: bank_of(case.method, t, data) for t in case.tables}
    if case.shape == "one":
        banks = banks[case.tables[0]]
    elif case.shape == "outcomes":
        banks = {"t": banks}
    more = dict(case.options)
    if case.shape == "tasks":
        more["warmup"] = 5
    table = table_of(case.tables[0], data)[0]
    if case.known in ("scores", "sampled"):
        question = "benchmark" if case.known == "scores" else "population"
        more |= {"known": table.select(table.models[::3]), "question": question}
    elif case.known:
        more["known"] = dict(zip("rst", (0.42, 0.5, 0.61)))
    names = NAMES[:1] if case.name == "single" else NAMES[:3] if case.moves else NAMES
    return Ranker(banks, {m: PRICES[m] for m in names}, seed=5, **more)


def score_of(case: Case, data: Path | None, model: str, item: Any) -> Any:
    """What a model scores."""
    rows = {t: table_of(t, data)[1][model] for t in case.tables}
    if case.shape == "one":
        return float(rows[case.tables[0]][item])
    task, i = item
    return float(rows[task][i]) if task in rows else {t: float(r[i]) for t, r in rows.items()}


# -- how it is run -------------------------------------------------------------------------------


def run(case: Case, data: Path | None, asks: Any = None) -> tuple[Any, list[dict[str, Any]]]:
    """Run a ranking: what was asked, batch by batch, and the figures at some moments.

    Parameters
    ----------
    asks : list of batches, optional
        What is asked, in place of asking; each batch a list of model, item and probability.
    """
    ranker, rng = ranker_of(case, data), np.random.default_rng(len(str(case)))
    batches: list[Any] = []
    moments = []
    while True:
        n = len(batches)
        if case.moves and n == 12:
            ranker.drop("B", "away")
            ranker.change(add={"D": PRICES["D"]}, max_items=70)
        if case.moves and n == 20:
            ranker.restore("B")
        if asks is None:
            batch = [(m, i, ranker.probability(m, i)) for m, i in ranker.ask(1 + n % 4)]
        else:
            batch = asks[n] if n < len(asks) else []
            batch = [(m, tuple(i) if isinstance(i, list) else i, p) for m, i, p in batch]
            ranker.impose(batch)
        if not batch:
            break
        batches.append(batch)
        for model, item, _ in batch:
            fate = rng.random()
            if case.moves and fate < 0.05:
                ranker.release(model, item)
            elif fate < case.failed:
                ranker.fail(model, item, "no answer", cost=0.5 * PRICES[model])
            else:
                ranker.tell(model, item, score_of(case, data, model, item))
        if n in (8, 24):
            moments.append(figures(ranker.result()))
    return batches, [*moments, figures(ranker.result())]


def figures(ranking: Ranking) -> dict[str, Any]:
    """What a ranking says, without what names versions."""
    out = ranking.to_dict()
    out.pop("warnings", None)
    for part in (out, *(p for k in ("tasks", "outcomes", "groups") for p in _inner(out, k))):
        for key in ("signature", "looks", "scale", "familywise"):
            part.pop(key)
        known = {name for name, model in part["models"].items() if model.get("known")}
        part["pairwise"] = [p for p in part["pairwise"] if not {p["a"], p["b"]} <= known]
        for pair in part["pairwise"]:  # `test_result` has the truth about differences
            for key in ("difference", "low", "high"):
                pair.pop(key)
        for model in part["models"].values():
            model.pop("items"), model.pop("draws")
        for pair in part["open_pairs"]:
            for key in ("one_look", "likely_items", "likely_cost"):
                pair.pop(key)
    return json.loads(json.dumps(out))


def _inner(found: dict[str, Any], key: str) -> Iterator[dict[str, Any]]:
    for part in found.get(key, {}).values():
        yield part
        for inner in ("tasks", "outcomes"):
            yield from _inner(part, inner)


@cache
def read() -> dict[str, Any]:
    """What was recorded, by case."""
    with gzip.open(FILE, "rt") as stream:
        return json.load(stream)


def difference(was: Any, now: Any, near: float, at: str = "") -> str:
    """Where two values differ first; "" where they do not."""
    if isinstance(was, dict) and isinstance(now, dict):
        if was.keys() != now.keys():
            return f"{at}: keys {sorted(was.keys() ^ now.keys())}"
        found = (difference(was[k], now[k], near, f"{at}/{k}") for k in was)
    elif isinstance(was, list) and isinstance(now, list):
        if len(was) != len(now):
            return f"{at}: {len(was)} entries, now {len(now)}"
        found = (difference(a, b, near, f"{at}/{i}") for i, (a, b) in enumerate(zip(was, now)))
    elif isinstance(was, float) and isinstance(now, (int, float)):
        return "" if abs(was - now) <= near * max(1.0, abs(was)) else f"{at}: {was}, now {now}"
    else:
        return "" if was == now else f"{at}: {was!r}, now {now!r}"
    return next(filter(None, found), "")


@pytest.mark.long
@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_a_ranking_is_as_it_was(case, request):
    data = request.getfixturevalue("shared") / "data" / "scores" if case.real else None
    was = read()[str(case)]
    near = 1e-6  # sums round otherwise on another processor, and fits stop elsewhere
    asks, moments = run(case, data)
    asks = json.loads(json.dumps(asks))
    found = difference(was["asks"], asks, near)
    if found:  # then what was asked is asked again, to see whether it is choices alone
        moments = run(case, data, was["asks"])[1]
    figures = difference(was["moments"], moments, near)
    assert not figures, figures
    assert not found, f"other items are asked, though the figures are the same: {found}"


def main() -> None:
    data = Path("../shared/data/scores")
    found = {}
    for case in cases():
        asks, moments = run(case, data)
        found[str(case)] = {"asks": asks, "moments": moments}
        print(case, sum(map(len, asks)), moments[-1]["ranking"], moments[-1]["stopped_because"])
    with FILE.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as stream:
        stream.write(json.dumps(found, separators=(",", ":")).encode())


if __name__ == "__main__":
    main()
