"""Sampled answers in logs and from a server: the settings say so, and the result names it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from worlds.boards import drive, of

from lm_eval_ccat import ItemBank, Ranker, ScoreTable, compare
from lm_eval_ccat.live.copies import _Repeated
from lm_eval_ccat.live.plan import make_plan
from lm_eval_ccat.live.spec import Spec
from lm_eval_ccat.records import Item
from lm_eval_ccat.report.plain import lines

DRAWN = {"generation_kwargs": {"temperature": 0.7}}
TWO = ["m05", "m07"]


def one_answer_each(n_items: int, seed: int, settings: dict) -> list[ScoreTable]:
    """Two models of the same probabilities."""
    rng = np.random.default_rng([seed, n_items])
    p = rng.beta(0.6, 0.4, n_items)
    return [
        ScoreTable.from_arrays([(rng.random(n_items) < p) * 1.0], [name], settings=settings)
        for name in ("old", "new")
    ]


@pytest.mark.long
@pytest.mark.parametrize(("n_items", "pairs"), [(30, 400), (100, 400), (442, 200)])
def test_logs_of_equal_models_differ_in_at_most_a_twentieth(n_items: int, pairs: int) -> None:
    def wrong(**how: str) -> int:
        found = [
            compare(*one_answer_each(n_items, seed, DRAWN), **how).outcomes[0].overall.verdict
            for seed in range(pairs)
        ]
        return sum(verdict in ("better", "worse") for verdict in found)

    assert wrong(question="benchmark") <= 0.05 * pairs + 2.5 * (0.05 * 0.95 * pairs) ** 0.5
    assert wrong(question="run") > 0.5 * pairs  # these very answers do differ


def test_of_the_temperatures_of_a_model_s_runs_the_highest_is_told() -> None:
    old, new = one_answer_each(30, 1, {})
    runs = {"old": {"model": "old"}, "new": {"model": "new", "temperature": "0.2,0.7,usual"}}
    found = compare(*(replace(table, configurations=runs) for table in (old, new)))
    [told] = [warning for warning in found.warnings if "one draw" in warning]
    assert "old is greedy" in told and "new is sampled (temperature 0.7)" in told


@pytest.mark.long
def test_sampled_logs_beside_a_run_have_their_noise(tmp_path) -> None:
    """A run of all items whose scores are what the other model is expected to score."""
    path, wrong, pairs = tmp_path / "result.json", 0, 100
    terms = [{"task": "t", "metric": "acc", "filter": None, "weight": 1.0}]
    for seed in range(pairs):
        rng = np.random.default_rng([seed, 7])
        p = rng.beta(0.6, 0.4, 60)
        result = drive(Ranker(ItemBank.blank(range(60)), ["old"], stop="limits"), of([p], ["old"]))
        path.write_text(json.dumps({**result.to_dict(), "terms": terms}))
        drawn = ScoreTable.from_arrays(
            [(rng.random(60) < p) * 1.0], ["new"], metric="acc", task="t", settings=DRAWN
        )
        found = compare(path, drawn)
        assert found.outcomes[0].sampled and "in expected scores" in lines(found)[0]
        wrong += found.verdict in ("better", "worse")
    assert wrong <= 0.05 * pairs + 2.5 * (0.05 * 0.95 * pairs) ** 0.5
    fixed = compare(path, replace(drawn, settings={}))
    assert fixed.verdict != "not known" and "in full runs" in lines(fixed)[0]
    very = compare(path, drawn, question="run")
    assert very.verdict == fixed.verdict and "in these very answers" in lines(very)[0]


def test_a_comparison_of_sampled_logs_names_its_question() -> None:
    [by_mean], [very] = (
        lines(compare(*one_answer_each(30, 1, DRAWN), question=question))[:1]
        for question in ("benchmark", "run")
    )
    assert "in expected scores on these documents" in by_mean
    assert "in these very answers" in very
    fixed = lines(compare(*one_answer_each(30, 1, {}), question="benchmark"))[0]
    assert "in full runs of these documents" in fixed


@pytest.mark.long
def test_a_ranking_at_a_temperature_is_about_expected_scores(bench, server) -> None:
    harness = {"include_path": "tasks", "gen_kwargs": {"temperature": 0.7}}
    content = bench.ranked(server, TWO, bank=None, harness=harness, max_items=30)
    assert content["sampled"] and "expected" in content["estimand"]
    run = bench.folder / "rank.run"
    header = json.loads((run / "journal.jsonl").read_text().splitlines()[0])
    assert header["ranker"]["sampled"] is True
    plain = bench.ranked(server, TWO, bank=None, name="greedy", max_items=30)
    assert "sampled" not in plain and "expected" not in plain["estimand"]


@pytest.mark.long
def test_known_results_of_a_ranking_at_a_temperature_have_the_noise_of_draws(bench, server):
    """A table does not say how its answers were drawn: as those of the ranking are."""
    table = ScoreTable.read(bench.folder / "known.parquet")
    for kwargs, is_exact in (({}, True), ({"gen_kwargs": {"temperature": 0.7}}, False)):
        harness = {"include_path": "tasks", **kwargs}
        config = bench.config(server.url, TWO, known="known.parquet", harness=harness)
        known = make_plan(Spec.read(config)).known
        for model, scores in zip(table.models, table.model_scores()):
            error = 0.0 if is_exact else float(np.sqrt(scores.var(ddof=1) / len(scores)))
            assert known[model].error == pytest.approx(error, rel=0.05)


@pytest.mark.long
def test_a_live_comparison_at_a_temperature_is_about_expected_scores(bench, server) -> None:
    sides = [
        {
            "name": model,
            "model": "local-completions",
            "model_args": {"model": model, "base_url": server.url, "tokenizer_backend": "none"},
        }
        for model in TWO
    ]
    harness = {
        "include_path": str(bench.folder / "tasks"),
        "gen_kwargs": {"temperature": 0.7},
    }
    settings = {"harness": harness, "max_items": 20}
    found = compare(*sides, task="loopback_task", **settings)
    assert found.outcomes[0].sampled and found.outcomes[0].question == "benchmark"
    assert "in expected scores on these documents" in lines(found)[0]


@pytest.mark.long
@pytest.mark.parametrize("drawn", ["logs", "live"])
def test_sampled_answers_of_one_side_alone_are_draws_too(bench, server, ccat, drawn) -> None:
    """Equal answers, one side of which is sampled: all documents tell, and leave noise."""
    folder, how = bench.folder / "logs", ("--gen_kwargs", "temperature=0.7")
    full = bench.adaptive(server, "m05", "--output_path", folder, "--log_samples")
    full.remove("--adaptive")
    ccat(*full, *(how if drawn == "logs" else ()))
    side = {
        "name": "new",
        "model": "local-completions",
        "model_args": {"model": "m05", "base_url": server.url, "tokenizer_backend": "none"},
    }
    kwargs = {} if drawn == "logs" else {"gen_kwargs": {"temperature": 0.7}}
    harness = {"include_path": str(bench.folder / "tasks"), **kwargs}
    about = {"models": ("old", None), "task": "loopback_task", "harness": harness}
    found = compare(folder, side, **about)
    [outcome] = found.outcomes
    assert outcome.sampled and "in expected scores on these documents" in lines(found)[0]
    assert outcome.overall.documents == bench.n_docs and outcome.overall.low < 0.0
    assert found.verdict == "not known"
    very = compare(folder, side, **about, question="run")
    assert very.verdict == "equivalent" and "in these very answers" in lines(very)[0]


@pytest.mark.long
def test_a_forecast_of_single_sampled_answers_ends_in_noise(bench, server, ccat) -> None:
    def planned(name: str, **gen_kwargs: float) -> tuple[dict, str]:
        harness = {"include_path": "tasks", "gen_kwargs": gen_kwargs}
        config = bench.config(server.url, TWO, bank=None, harness=harness, name=name)
        return json.loads(ccat("plan", config, "--json").out), ccat("plan", config).out

    drawn, text = planned("drawn", temperature=0.7)
    *_, by_all_items = drawn["smallest_gap_by_items"].values()
    assert min(by_all_items.values()) > 0.01 and drawn["by_gap"]["0.02"].keys() <= {"graded"}
    assert "one sampled answer to every item does not decide it" in text
    fixed, text = planned("fixed", temperature=0.0)
    *_, by_all_items = fixed["smallest_gap_by_items"].values()
    assert set(by_all_items.values()) == {0.0} and "full" in fixed["by_gap"]["0.02"]
    assert "sampled" not in text


def test_a_document_of_which_one_repeat_differs_is_no_copy_whatever_comes_later():
    repeated = _Repeated()
    for as_first in (True, False, True):
        repeated.note(Item(("t", 1)), as_first)
    repeated.note(Item(("t", 2)), True)
    assert repeated.equal == {Item(("t", 2))} and repeated.differing == {Item(("t", 1))}
