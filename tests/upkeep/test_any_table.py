"""Whatever the table, `calibrate` gives a bank that ranks, or one line with the remedy."""

import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, calibrate
from lm_eval_ccat.errors import CcatError

#: Kinds of tables, made of random numbers; "even" is these themselves.
KINDS = {
    "even": lambda raw, rng: raw,
    "sparse": lambda raw, rng: np.where(rng.random(raw.shape) > 0.05, 0.0, raw),
    "binary": lambda raw, rng: (raw < rng.random(raw.shape[1])).astype(float),
    "constant": lambda raw, rng: np.full(raw.shape, rng.choice([0.0, 0.3, 1.0])),
    "copies": lambda raw, rng: np.tile(raw[0], (len(raw), 1)),
    "ends": lambda raw, rng: rng.choice([0.0, 1.0, 1e-9, 1 - 1e-9], raw.shape),
    "one odd": lambda raw, rng: (np.arange(raw.size) == rng.integers(raw.size)).reshape(raw.shape),
    "holes": lambda raw, rng: np.where(rng.random(raw.shape) < 0.7, np.nan, raw),
    "steps": lambda raw, rng: np.tri(*raw.shape),
    "line": lambda raw, rng: np.tile(np.arange(97, 97 + len(raw)) / 200, (raw.shape[1], 1)).T,
}


@pytest.mark.long
@settings(max_examples=15)
@given(
    kind=st.sampled_from(list(KINDS)),
    models=st.integers(1, 14),
    items=st.integers(1, 60),
    seed=st.integers(0, 2**16),
    method=st.sampled_from(["default", "default", "paper"]),
)
@example("sparse", 10, 60, 4, "default")
@example("sparse", 9, 6, 55042, "default")  # all models but one are equal
@example("holes", 5, 5, 1, "default")  # a model without a score on the items kept
@example("one odd", 12, 20, 0, "default")  # no model has a draw
@example("copies", 4, 10, 0, "default")
@example("one odd", 2, 7, 35681, "paper")  # fewer items than a stage of looks has
@example("copies", 14, 2, 30577, "paper")  # no item has any information
@example("copies", 8, 8, 63675, "paper")  # every item is asked
@example("one odd", 3, 1, 53139, "default")  # one item
@example("line", 6, 1, 0, "default")  # curves fit without any residual
def test_any_table_gives_a_bank_or_one_line(tmp_path_factory, kind, models, items, seed, method):
    rng = np.random.default_rng(seed)
    raw = KINDS[kind](rng.random((models, items)), rng)
    table = ScoreTable.from_arrays(raw, [f"m{j}" for j in range(models)], metric="x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # NumPy's, of divisions by 0 and the like
        try:
            bank = calibrate(table, method, keep_scores=True)
            path = tmp_path_factory.mktemp("b") / "b.json"
            bank.save(path)
            again = ItemBank.load(path)
            assert again.sha256 == bank.sha256
            ranker = Ranker(again, {"a": 1.0, "b": 1.0}, budget=12)
            while not ranker.done:
                for model, item in ranker.ask():
                    ranker.tell(model, item, float(rng.choice([0.0, 0.5, 1.0])))
            estimates = ranker.result().estimates
            assert all(0.0 <= e <= 1.0 for e in estimates.values())
        except CcatError as error:
            assert "\n" not in str(error) and "damaged" not in str(error)
