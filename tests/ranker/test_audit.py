"""The audit's estimate holds when the response model is wrong, and says when it is."""

import numpy as np
import pytest
from scipy import stats
from worlds.boards import bank_of, draw, drive

from lm_eval_ccat import Ranker
from lm_eval_ccat.methods.policy import Drawn
from lm_eval_ccat.ranker.audit import AuditResult, Draw, audit, is_due


def world(n_items: int = 120, task: int = 0):
    """A bank, and the scores of a model like its own and of one that is good where they are bad."""
    usual, other = draw([0.0, 0.0], n_items, 1, task)
    return bank_of("paper", n_items, task), usual, 1.0 - other


def run(bank, scores, *, audit: float, n: int, seed: int = 0, **more):
    ranker = Ranker(bank, {"m": 1.0}, max_items=n, audit=audit, seed=seed, **more)
    return drive(ranker, {"m": scores}, 3)


def test_a_model_that_no_ability_of_the_bank_describes_does_not_fit_it():
    bank, usual, alien = world()
    fits = [run(bank, y, audit=0.4, n=40).audits["m"].fits for y in (usual, alien)]
    assert fits == [True, False]


@pytest.mark.parametrize("share", [0.1, 0.25, 1 / 3, 0.5, 0.99])
def test_the_share_is_kept(share):
    due = [is_due(n, share) for n in range(1000)]
    assert sum(due) == pytest.approx(1000 * share, abs=1)


def test_every_task_is_audited_by_itself():
    bank, usual, _ = world()
    other = world(90, 3)
    banks, tells = {"x": bank, "y": other[0]}, {"x": usual, "y": other[2]}
    ranker = Ranker(banks, {"m": 1.0}, max_items=60, audit=0.4, stop="limits", confidence=0.8)
    start = {"x": 0, "y": bank.n_items}
    had: dict[str, list[int]] = {"x": [], "y": []}
    lost: dict[str, list[int]] = {"x": [], "y": []}
    draws: dict[str, list[tuple]] = {"x": [], "y": []}
    asked = 0
    while not ranker.done and asked < 60:
        before = ranker.expected("m")
        ((_, (task, item)),) = ranker.ask()
        asked += 1
        mu, b = before[start[task] :][: banks[task].n_items], banks[task]
        left = [i for i in range(b.n_items) if b.kept[i] and i not in had[task] + lost[task]]
        if (p := ranker.probability("m", (task, item))) is not None:
            assert p == pytest.approx(1.0 / len(left))
            draws[task].append((item, [*had[task], *lost[task]], left, mu))
        if asked in (9, 23):
            lost[task].append(item)
            ranker.fail("m", (task, item), "no")
        else:
            had[task].append(item)
            ranker.tell("m", (task, item), tells[task][item])
    for task, found in ranker.result().tasks.items():
        y, n = tells[task], int(banks[task].kept.sum())
        now = ranker.expected("m")[start[task] :]
        scored = [d for d in draws[task] if d[0] in had[task]]
        values = [
            (
                sum(now[i] if i in lost[task] else y[i] for i in before)
                + sum(mu[i] for i in left)
                + len(left) * (y[k] - mu[k])
            )
            / n
            for k, before, left, mu in scored
        ]
        assert found.audits["m"].n == len(values) >= 3
        mean, error = np.mean(values), np.std(values, ddof=1) / len(values) ** 0.5
        reach = float(stats.t.ppf(0.9, len(values) - 1)) * error
        one = found.audits["m"]
        assert (one.estimate, one.standard_error) == pytest.approx((mean, error), abs=1e-12)
        ends = max(mean - reach, 0.0), min(mean + reach, 1.0)  # it ends with the scale
        assert one.interval == pytest.approx(ends)
        assert one.agrees == (ends[0] <= found.estimates["m"] <= ends[1])
        drawn = Drawn(one.n, one.estimate, one.standard_error, 1.0)
        assert not AuditResult.of(drawn, ends[1] + 1e-6, 0.8).agrees


DRAWS = [
    Draw(item=2, asked=(0, 1), n_left=8, expected_left=4.1, expected=0.5),
    Draw(item=3, asked=(0, 1, 2), n_left=7, expected_left=3.3, expected=0.6),
    Draw(item=5, asked=(0, 1, 2, 3, 4), n_left=5, expected_left=2.4, expected=0.4),
    Draw(item=9, asked=(0, 1, 2, 3, 4, 5), n_left=4, expected_left=2.0, expected=0.1),
]
SCORES = {0: 0.2, 1: 0.9, 2: 0.45, 3: 0.7, 5: 0.35}  # 4 failed, 9 is in flight
EXPECTED = np.array([0.3, 0.8, 0.5, 0.6, 0.55, 0.4, 0.5, 0.5, 0.5, 0.1])


@pytest.mark.parametrize("variance", [[0.02, 0.02, 0.02], [0.01, 0.05, 0.002]])
def test_misfit_is_a_scaled_chi_square(variance):
    of_all = np.ones(10)
    of_all[[2, 3, 5]] = variance
    found = audit(DRAWS, SCORES, EXPECTED, of_all)
    square = (0.45 - 0.5) ** 2 + (0.7 - 0.6) ** 2 + (0.35 - 0.4) ** 2
    v = np.array(variance)
    freedom = v.sum() ** 2 / (v**2).sum()
    scale = v.sum() / freedom
    assert found.misfit_p == pytest.approx(stats.chi2.sf(square / scale, freedom))
    assert audit([], {}, EXPECTED, of_all).misfit_p == 1.0
    few = AuditResult.of(audit(DRAWS[:2], SCORES, EXPECTED, of_all), 0.5, 0.95)  # says nothing yet
    assert few.n == 2 and few.agrees is None and few.interval == (0.0, 1.0)


@pytest.mark.parametrize(("p", "fits"), [(0.0009, False), (0.001, True), (float("nan"), True)])
def test_a_misfit_is_called_so_below_one_in_a_thousand(p, fits):
    assert AuditResult(3, 0.5, 0.1, (0.4, 0.6), True, p).fits == fits


def test_an_audit_is_unbiased_whatever_fails():
    """All draws from six items, one of which fails: the mean over them is the benchmark's."""
    y, mu = np.array([0.1, 0.9, 0.4, 0.6, 0.2, 0.8]), np.array([0.3, 0.5, 0.5, 0.4, 0.6, 0.7])
    scores = dict(enumerate(y.tolist()))
    del scores[1]
    values = []
    for item in (0, 2, 3, 4, 5):  # of those that do not fail, item 1 having failed before
        left = float(mu[[0, 2, 3, 4, 5]].sum())
        one = Draw(item, (1,), 5, left, float(mu[item]))
        found = audit([one] * 3, scores, mu, np.full(6, 0.02))
        values.append(found.estimate)
    truth = (y.sum() - y[1] + mu[1]) / 6
    assert np.mean(values) == pytest.approx(truth)


def test_a_draw_that_was_given_back_is_forgotten():
    bank, usual, _ = world()
    ranker = Ranker(bank, {"m": 1.0, "o": 1.0}, max_items=40, audit=0.5)
    given_back = 0
    while not ranker.done:
        for model, item in ranker.ask():
            if ranker.probability(model, item) is not None and given_back < 2 and model == "m":
                given_back += 1
                ranker.release(model, item)
            else:
                ranker.tell(model, item, usual[item])
    result = ranker.result()
    assert result.audits["o"].n == 20
    assert result.audits["m"].n == len(result.draws["m"]) < 20
