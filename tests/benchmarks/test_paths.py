"""benchmarks/paths.py: a rule read off a path stops where a ranking by that rule stops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import paths, worlds
from benchmarks.remade import made
from lm_eval_ccat import ItemBank, Ranker, calibrate
from lm_eval_ccat.methods.belief import Belief
from lm_eval_ccat.ranker.looks import Looks

LONGEST = 40
TABLE = made(16, 120)
PAIRS = ((0, 15), (2, 13), (7, 8))


def scores_of(pair: tuple[int, int]) -> np.ndarray:
    return np.asarray(TABLE.select([TABLE.models[j] for j in pair]).scores)


def stopped(bank: ItemBank, scores: np.ndarray, seed: int, horizon: int) -> tuple[int, int]:
    """Items of the model that has more, and the sign, where a ranking of two in turn decides."""
    ranker = Ranker(bank, ["a", "b"], max_items=horizon, seed=seed)
    for ask in range(2 * horizon):
        for model, item in ranker.ask(1, model="ab"[ask % 2]):
            ranker.tell(model, item, float(scores[ask % 2, item]))
        if sign := int(ranker.verdicts.sign[0, 1]):
            return ask // 2 + 1, sign
    return horizon, 0


@pytest.mark.long
@pytest.mark.parametrize("method", ["default", "sample"])
def test_the_rankers_rule_stops_a_path_where_the_ranker_stops(method: str) -> None:
    held = [TABLE.models[j] for pair in PAIRS for j in pair]
    bank, horizons = calibrate(TABLE.without(held), method), (25, LONGEST)
    decided = dict.fromkeys(horizons, 0)
    for seed, pair in enumerate(PAIRS):
        scores = scores_of(pair)
        looks = worlds.played({"made": bank}, {"made": scores}, seed, LONGEST)
        truth = scores.mean(axis=1)
        path = worlds.Path(method, "made", "made", 0, False, TABLE.n_items, truth, looks)
        for horizon in horizons:
            found = paths.stop(paths.ranker, path, horizon)
            items, sign = stopped(bank, scores, seed, horizon)
            assert (found.items, found.decided) == (items, sign != 0)
            assert found.wrong == (sign * np.subtract(*truth) < 0.0)
            decided[horizon] += found.decided
    assert all(0 < count < len(PAIRS) for count in decided.values())


def test_a_real_pair_says_whether_a_rule_ever_rules_out_its_true_difference() -> None:
    # A true difference of .1: estimates .3 above it and at it, with several standard errors.
    n = np.arange(10.0, 31.0)
    rows = {"had_a": n, "had_b": n, "df": np.inf, "n": n, "mean_a": 0.6, "mean_b": 0.5}
    for gap, error, expected in ((0.4, 0.1, True), (0.4, 0.4, False), (0.1, 0.01, False)):
        figures = {**rows, "gap": gap, "variance": error**2}
        looks = np.column_stack([figures.get(c, 0.0) * np.ones(21) for c in worlds.COLUMNS])
        path = worlds.Path("default", "made", "made", 0, False, 400, np.array([0.6, 0.5]), looks)
        assert paths.ruled_out(paths.one, path, 30) == expected
        assert paths.stop(paths.one, path, 30).decided == (gap > 1.96 * error)
        said = paths.table([path], {"one": paths.one}, [30]).splitlines()[-1]
        assert said.split()[:6] == ["all", "one", "-", "of", "0", f"{100.0 * expected:.1f}"]


@pytest.mark.parametrize(("gap", "truth"), [(0.3, 0.32), (0.3, 0.28), (0.02, 0.04), (-0.02, 0.0)])
def test_what_the_rankers_rule_rules_out_lies_outside_its_intervals(gap: float, truth: float):
    n, excluded = np.arange(10.0, 31.0), []
    for error in np.linspace(0.002, 0.02, 40):
        figures = {"had_a": n, "had_b": n, "df": np.inf, "n": n, "gap": gap, "variance": error**2}
        looks = np.column_stack([figures.get(c, 0.0) * np.ones(21) for c in worlds.COLUMNS])
        means = np.array([0.5 + truth, 0.5])
        path = worlds.Path("default", "made", "made", 0, False, 400, means, looks)
        said = paths.excludes(paths.ranker, path, 30, truth)[-1]
        belief = Belief.independent([gap, 0.0], [error / 2**0.5] * 2, n=[30, 30], n_items=400)
        none = np.zeros((2, 2))
        belief = replace(belief, pair_zero_loss=none, rare_loss=none)
        low, high = (float(e[0, 1]) for e in Looks(horizons=(30,)).ends(belief, 0.05, 0.05))
        assert said == (not low < truth < high)
        excluded.append(said)
    assert any(excluded) and not all(excluded)


def test_a_pair_is_called_equivalent_where_its_interval_at_one_look_lies_within_the_margin() -> (
    None
):
    n = np.arange(10.0, 31.0)
    # At the last look alone the interval is the gap +- 1.96 errors.
    for gap, error, truth, expected in (
        (0.02, 0.03, 0.05, "1 of 1 closer pairs called equivalent, 0 of 0 others"),
        (0.02, 0.03, 0.15, "0 of 0 closer pairs called equivalent, 1 of 1 others"),
        (0.02, 0.05, 0.05, "0 of 1 closer pairs called equivalent, 0 of 0 others"),
        (0.3, 0.03, 0.05, "0 of 1 closer pairs called equivalent, 0 of 0 others"),
        (-0.3, 0.03, 0.05, "0 of 1 closer pairs called equivalent, 0 of 0 others"),
    ):
        figures = {"had_a": n, "had_b": n, "df": np.inf, "n": n, "gap": gap, "variance": error**2}
        looks = np.column_stack([figures.get(c, 0.0) * np.ones(21) for c in worlds.COLUMNS])
        means = np.array([0.5 + truth, 0.5])
        path = worlds.Path("default", "made", "made", 0, False, 400, means, looks)
        said = paths.equivalences([path], paths.one, [30], [0.1])
        assert said == f"horizon 30, within 0.1: {expected}"


@pytest.mark.long
def test_paths_are_kept_and_read_as_they_were_played(tmp_path, monkeypatch) -> None:
    scores = worlds.Scores(list(TABLE.models), np.asarray(TABLE.scores))
    monkeypatch.setattr(worlds, "scores_of", lambda _: scores)
    monkeypatch.setattr(worlds, "LONGEST", 12)
    monkeypatch.setitem(worlds.WORLDS, "random", worlds.World(worlds._any, ("made of models",)))
    paths.make(tmp_path, ["random"], range(1), ["sample"])
    [file] = tmp_path.iterdir()
    written = file.stat().st_mtime_ns
    paths.make(tmp_path, ["random"], range(1), ["sample"])
    assert file.stat().st_mtime_ns == written
    kept = list(paths.kept(tmp_path, ["random"], "sample"))
    played = list(worlds.paths_of("random", "made of models", 0, "sample"))
    assert len(kept) == len(played) == worlds.NEW
    for read, path in zip(kept, played):
        assert (read.equal, read.n_items) == (path.equal, path.n_items)
        assert (read.looks == path.looks).all() and (read.truth == path.truth).all()
        assert not path.equal or abs(float(np.subtract(*path.truth))) < 1e-3
    said = paths.table(kept, {"ranker": paths.ranker, "one": paths.one}, [12])
    assert said.count("of 3") == 4 and "random" in said


def test_a_hash_names_what_makes_paths(tmp_path, monkeypatch) -> None:
    file = tmp_path / "worlds.py"
    file.write_text("def f():\n    return 1\n")
    monkeypatch.setattr(paths, "MAKERS", (str(file),))
    monkeypatch.setattr(paths, "data_files", lambda: [])
    before = paths.maker()
    file.write_text('def f():\n    """Why."""\n    return 1  # so\n')
    assert paths.maker() == before
    file.write_text("def f():\n    return 2\n")
    assert paths.maker() != before
