"""A run of some documents reports an estimate that nothing can take for a full score."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest
from lm_eval.utils import make_table
from local_bench import N_DOCS, Copyist
from worlds.logs import logged

from lm_eval_ccat import ItemBank, ScoreTable, calibrate
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.errors import BankMismatchError, CcatError, HarnessError, MetricError, UsageError
from lm_eval_ccat.harness import internals
from lm_eval_ccat.harness.evaluation import save_results
from lm_eval_ccat.live.adaptive import adaptive_evaluate
from lm_eval_ccat.metrics import find_metric


@pytest.mark.long
def test_a_corpus_metric_is_estimated_under_its_sentence_name(bench):
    results = bench.adaptive(["texts"], bench.bank("texts", "bleu"), max_items=12)
    values, block = results["results"]["texts"], results["adaptive"]["texts"]
    keys = "sentence_bleu,none sentence_bleu_stderr,none adaptive_items,none"
    assert set(values) == {"name", "alias", "sample_len", *keys.split()}
    assert results["n-samples"]["texts"] == {"original": N_DOCS, "effective": 12}
    assert values["adaptive_items,none"] == values["sample_len"] == block["items"] == 12
    assert block["items_total"] == N_DOCS
    assert set(block["not_estimated"]) == {"bleu,none", "chrf,none", "ter,none"}
    assert values["sentence_bleu,none"] == block["estimate"]
    # BLEU is on 0 to 100; a standard error on 0 to 1 could never exceed 0.5.
    assert values["sentence_bleu_stderr,none"] == block["standard_error"] > 0.5
    low, high = block["interval"]
    assert 0 <= low < block["estimate"] < high <= 100
    assert "not the corpus bleu" in block["estimand"]
    harness = f"lm-eval:{internals.harness_version()}"
    for part in ("metric:bleu", "method:paper", f"bank:{block['bank']}", harness, "fewshot:2"):
        assert part in block["signature"]
    assert '|generation:{"' in block["signature"] and '"until":' in block["signature"]
    table = make_table(results)
    assert "adaptive estimate, 12 of 36 docs" in table and "sentence_bleu" in table
    json.dumps(results["adaptive"])


@pytest.mark.long
def test_several_metrics_are_estimated_from_the_same_answers(bench):
    metrics = {"bleu": 1, "chrf": 0, "ter": 0}
    lm = Copyist()
    results = bench.adaptive(["texts"], None, lm, metrics=metrics, max_items=12)
    values, block = results["results"]["texts"], results["adaptive"]["texts"]
    assert len(lm.seen) == block["items"] == 12
    full = bench.stock(["texts"])["samples"]["texts"]
    for one, metric in zip(block["outcomes"], metrics):
        key = f"sentence_{metric},none"
        assert one["key"] == key and values[key] == one["estimate"]
        assert values[f"sentence_{metric}_stderr,none"] == one["standard_error"] > 0
        truth = np.mean([find_metric(metric).score(row[metric], task="texts") for row in full])
        assert abs(one["estimate"] - truth) < 4 * one["standard_error"]
        low, high = one["interval"]  # also of ter, where lower is better
        assert low < one["estimate"] < high
    with pytest.raises(MetricError, match="does not report metric rouge"):
        bench.adaptive(["texts"], None, metrics=["bleu", "rouge"], max_items=12)


@pytest.mark.long
def test_the_target_and_the_budget_stop_it(bench):
    bank = bench.bank("choices", "acc")
    results = bench.adaptive(["choices"], bank, stop="se 0.4")
    wide = results["adaptive"]["choices"]
    assert wide["items"] < N_DOCS and wide["standard_error"] <= 0.4
    rows = results["samples"]["choices"]
    assert wide["estimate"] != np.mean([row["acc"] for row in rows])
    assert [row["doc_id"] for row in rows] == sorted(row["doc_id"] for row in rows)
    for option, items, why in (
        ({"budget": {"items": 7}}, 7, "budget"),
        ({"max_items": 3}, 3, ""),
        ({"budget": {"seconds": 1e-6}}, 1, "seconds"),
    ):
        block = bench.adaptive(["choices"], bank, **option)["adaptive"]["choices"]
        assert block["items"] == items and why in block["stopped_because"]


def test_a_budget_in_dollars_is_kept(bench):
    bank, budget = bench.bank("texts", "bleu"), {"usd": 0.002}
    price = {"input": 1.0, "output": 2.0}
    block = bench.adaptive(["texts"], bank, budget=budget, price=price)["adaptive"]["texts"]
    # The last document may cost more than was expected of it.
    assert 0 < block["cost"]["usd"] <= 1.05 * 0.002 and block["items"] < N_DOCS


def test_documents_go_to_the_model_in_batches(bench):
    lm = Copyist()
    lm.batch_size = 4
    bench.adaptive(["texts"], bench.bank("texts", "bleu"), lm, max_items=12)
    assert lm.calls == [4, 4, 4]


@pytest.mark.long
def test_a_group_without_a_metric_that_all_of_its_tasks_have_is_marked(bench):
    banks = {
        "choices": bench.bank("choices", "acc"),
        "sums": bench.bank("sums", "exact_match", "majority"),
    }
    results = bench.adaptive(["all_of_it"], banks, max_items=10)
    values, block = results["groups"]["all_of_it"], results["adaptive"]["all_of_it"]
    # acc is missing in sums even in a full run; only choices reports it, as the harness has it.
    assert "exact_match,strict" not in values
    assert "exact_match,strict" in block["not_estimated"]
    assert "(no estimate, 20 docs run)" in values["alias"]
    assert results["results"]["all_of_it"]["sample_len"] == 20
    make_table(results, "groups")


def by_own_name(results):
    """Results by the tasks' own names; from 0.5 on a group's name leads them."""
    return {name.rpartition("::")[2]: values for name, values in results.items()}


@pytest.mark.long
@pytest.mark.parametrize("by_size", [True, False])
def test_a_mean_over_two_estimates_weighs_all_documents_and_has_their_error(bench, by_size):
    bench.variant("few", lambda lines: lines[:12])
    bench.group("pair", ["choices", "few"], by_size)
    values = by_own_name(bench.adaptive(["pair"], None, max_items=10)["results"])
    mean, error = (
        np.array([values[task][f"{key},none"] for task in ("choices", "few")])
        for key in ("acc", "acc_stderr")
    )
    weights = np.array([N_DOCS, 12]) / (N_DOCS + 12) if by_size else np.array([0.5, 0.5])
    assert values["pair"]["acc,none"] == pytest.approx(weights @ mean)
    assert values["pair"]["acc_stderr,none"] == pytest.approx(np.hypot(*(weights * error)))


@pytest.mark.long
def test_the_target_of_a_group_is_that_of_its_score(bench):
    """Its tasks need not be known so well; a task outside it has a target of its own."""
    for name in ("one", "two"):
        bench.variant(name)
    bench.group("halves", ["one", "two"], False)
    tasks = ("one", "two", "halves::one", "halves::two", "choices")
    banks = dict.fromkeys(tasks, bench.bank("choices", "acc"))
    results = bench.adaptive(["choices", "halves"], banks, stop="se 0.025", ahead=1, looks="one")
    values, blocks = (by_own_name(results[part]) for part in ("results", "adaptive"))
    assert values["halves"]["acc_stderr,none"] <= 0.025 < values["one"]["acc_stderr,none"]
    # By itself a task goes on to its limit without reaching it.
    assert blocks["one"]["items"] + blocks["two"]["items"] < 2 * blocks["choices"]["items"]
    assert values["choices"]["acc_stderr,none"] > 0.025
    assert blocks["one"]["stopped_because"] == "the target is reached"
    assert "the bank is of task choices" in blocks["one"]["warnings"][0]
    [score] = blocks["halves"]["scores"].values()
    assert score["standard_error"] == values["halves"]["acc_stderr,none"]
    shared = bench.adaptive(["choices", "halves"], banks, budget={"items": 31})["adaptive"]
    counts = {name: block["items"] for name, block in by_own_name(shared).items()}
    assert counts["choices"] == 10 and counts["one"] + counts["two"] == 21


class TwoProcesses(Copyist):
    world_size = 2


OTHERS = r"task texts does not report metric ten; it reports bleu, chrf, ter.* \(name one of these"
REFUSED = [
    ("choices", "choices", dict(lm=TwoProcesses()), HarnessError, "2 data-parallel processes"),
    ("choices", "choices", dict(predict_only=True), HarnessError, "predict_only"),
    ("choices", "choices", dict(num_fewshot=1), BankMismatchError, "fewshot is 1, the bank has 3"),
    ("choices", "choices", dict(max_items=0), UsageError, "max_items"),
    ("choices sums", {"choices"}, {}, UsageError, "no bank of task sums"),
    ("turned", "choices", {}, BankMismatchError, "same documents in another order"),
    ("texts", "choices", {}, CcatError, r"the bank is of task choices \(acc\), not of texts: "),
    ("texts", "ten", {}, MetricError, OTHERS),
    ("choices", "ten", {}, MetricError, "it reports acc, acc_norm"),
]


@pytest.mark.parametrize("tasks, bank, arguments, kind, words", REFUSED)
def test_what_cannot_be_is_refused_before_any_model_call(
    bench, tasks, bank, arguments, kind, words
):
    lm = arguments.pop("lm", None) or Copyist()
    if tasks == "turned":
        bench.variant("turned", lambda lines: lines[::-1])
    made = bench.bank("choices", "acc")
    if bank == "ten":
        scores = np.linspace(0, 1, 4 * N_DOCS).reshape(N_DOCS, 4).T
        made = calibrate(ScoreTable.from_arrays(scores, [*"abcd"], metric="ten", task=tasks))
    with pytest.raises(kind, match=words):
        bench.adaptive(
            tasks.split(), {"choices": made} if bank == {"choices"} else made, lm, **arguments
        )
    assert not lm.calls


@pytest.mark.long
def test_a_bank_that_two_tasks_name_is_that_of_one_and_may_be_used_by_another_alone(bench):
    bench.variant("twin")
    bank, lm = bench.bank("choices", "acc"), Copyist()
    with pytest.raises(UsageError, match="no bank of task twin"):
        bench.adaptive(["choices", "twin"], bank, lm)
    assert not lm.calls
    block = bench.adaptive(["twin"], bank, lm, max_items=4)["adaptive"]["twin"]
    assert any("the bank is of task choices" in warning for warning in block["warnings"])


@pytest.mark.long
def test_documents_for_which_the_task_leaves_the_metric_out_are_passed_over(bench):
    (bench.tasks / "patchy.py").write_text(
        "def score(doc, results):\n"
        "    right = str(doc['number']) in results[0]\n"
        "    known = {} if doc['number'] % 5 else {'right': right}\n"
        "    return {'length': len(results[0]), **known}\n"
    )
    text = (bench.tasks / "sums.yaml").read_text().split("metric_list")[0]
    (bench.tasks / "patchy.yaml").write_text(
        text.replace("task: sums", "task: patchy")
        + "process_results: !function patchy.score\n"
        + "metric_list: [{metric: right, aggregation: mean}, {metric: length, aggregation: mean}]\n"
    )
    table = ScoreTable.from_arrays(
        np.random.default_rng(0).random((5, N_DOCS)), models=list("abcde"), metric="right"
    )
    bank = calibrate(table, method="paper")
    stock = bench.stock(["patchy"], bootstrap_iters=0)
    full = bench.adaptive(["patchy"], bank, max_items=N_DOCS, bootstrap_iters=0)
    for key, value in stock["results"]["patchy"].items():
        assert full["results"]["patchy"][key] == value
    part = bench.adaptive(["patchy"], bank, max_items=4)["adaptive"]["patchy"]
    assert part["items"] > 4 and "length,none" in part["not_estimated"]


@pytest.mark.long
def test_logs_of_an_adaptive_run_are_topped_up_to_a_full_one(bench, tmp_path):
    lm, again = Copyist(), Copyist()
    few = {"tasks": ["choices"], "max_items": 15, "task_manager": bench.manager()}
    logged(tmp_path, lm, adaptive_evaluate, model_args=None, **few)
    full = bench.adaptive(["choices"], None, again, max_items=N_DOCS, prior=str(tmp_path))
    assert len(lm.seen) + len(again.seen) == 4 * N_DOCS and not set(lm.seen) & set(again.seen)
    stock = bench.stock(["choices"], bootstrap_iters=10)
    assert full["results"]["choices"] == stock["results"]["choices"]


@pytest.mark.long
def test_what_a_run_observed_is_kept_in_a_bank(bench, tmp_path):
    file = tmp_path / "kept.bank.json"
    for name, given in (("one", None), ("two", file)):  # the next run may be given it
        lm = Copyist(name=name)
        lm.model = name
        bench.adaptive(["choices"], given, lm, max_items=8, save_bank=file)
    bank = ItemBank.load(file)
    assert bank.models == ("one", "two") and bank.method == "sample"
    assert [len(o.items) for o in bank.observations] == [8, 8]
    # Several tasks, each run by itself, add to one folder.
    folder = file.with_name("kept")
    for tasks in (["choices", "sums"], ["texts", "sums"]):
        bench.adaptive(tasks, None, lm, max_items=4, save_bank=folder)
    assert set(SuiteBank.load(folder)) == {"choices", "sums", "texts"}
    with pytest.raises(UsageError, match="is a file, but banks of several tasks need a folder"):
        bench.adaptive(["choices", "sums"], None, lm, max_items=12, save_bank=file)


def test_files_of_results_are_written_whole_with_their_instruction_or_not_at_all(
    tmp_path, monkeypatch
):
    tracker = internals.resolve("lm_eval.loggers:EvaluationTracker")
    results = {"results": {"t": {"acc,none": 1.0}}, "configs": {"t": {}}, "config": {"model": "x"}}
    row = {"doc": {}, "target": "", "resps": [], "filtered_resps": [], "arguments": []}
    row |= {"doc_hash": "d", "prompt_hash": "p", "target_hash": "t"}
    rows = [{"doc_id": n, **row} for n in range(3)]
    write = partial(save_results, str(tmp_path), "m", results, {"t": rows})
    with monkeypatch.context() as patch:  # the tracker only logs that the disk is full
        patch.setattr(tracker, "save_results_samples", lambda *_, **__: None)
        with pytest.raises(OSError, match="does not take them whole"):
            write({})
    assert not [*tmp_path.rglob("*.json*")]
    write({"system_instruction": "Be brief."})
    [file], [log] = tmp_path.rglob("results_*.json"), tmp_path.rglob("samples_t_*.jsonl")
    assert json.loads(file.read_text())["system_instruction"] == "Be brief."
    assert [json.loads(row)["doc_id"] for row in log.read_text().splitlines()] == [0, 1, 2]
    # Files of an earlier call stay beside those of a later one, and nothing else is left.
    file = file.rename(file.with_name("results_2020-01-01T00-00-00.json"))
    write({})
    assert file.is_file() and len([*tmp_path.rglob("results_*.json")]) == 2
    assert [*tmp_path.iterdir()] == [file.parent]
    long_name = "模" * 264
    save_results(str(tmp_path / "long"), long_name, results, {"t": rows}, {})
    [file] = (tmp_path / "long").glob("*/results*.json")
    assert json.loads(file.read_text())["model_name"] == long_name
