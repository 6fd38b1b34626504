"""What scored a result is part of its identity: in sessions, logs and banks, and compared."""

from __future__ import annotations

import json

import pytest
import yaml
from local_bench import Copyist

from lm_eval_ccat import ScoreTable, calibrate
from lm_eval_ccat.bank.settings import check_bank
from lm_eval_ccat.errors import BankMismatchError
from lm_eval_ccat.harness import internals, open_session
from lm_eval_ccat.harness.scorers import add_scorers, record_scorers, scorer_of, signed
from lm_eval_ccat.metrics.scale import ITEM_SCALED
from lm_eval_ccat.scores.readers.logged_runs import SCORER


def test_a_scorer_is_the_same_whatever_the_order_of_its_keys():
    marks = [
        signed("seed:0", "t", scorer=dict(pairs), asking=[])
        for pairs in ((("encoder", "x"), ("layer", 17)), (("layer", 17), ("encoder", "x")))
    ]
    assert marks[0] == marks[1] != signed("seed:0", "t", scorer={"encoder": "x", "layer": 9})


def test_a_scorer_is_what_its_scores_depend_on(tmp_path, monkeypatch):
    def judged_by(**changes):
        content = {"model": "judge-1", "base_url": "http://127.0.0.1:9/v1", **changes}
        named = tmp_path / f"judge-{len(list(tmp_path.iterdir()))}.yaml"
        named.write_text(yaml.safe_dump(content))
        monkeypatch.setenv("CCAT_JUDGE", str(named))
        return scorer_of("judge_score")

    first = judged_by()
    assert first["judges"] == [{"model": "judge-1", "temperature": 0.0, "max_tokens": 512}]
    assert judged_by(base_url="http://elsewhere/v1", timeout=3, price={"item": 1}) == first
    for other in (
        {"temperature": 0.5},
        {"max_tokens": 64},
        {"model": "b"},
        {"extra": {"top_p": 1}},
    ):
        assert judged_by(**other) != first
    # A task's own metric of such a name has nothing to do with the judge that is configured.
    assert scorer_of("judgement_accuracy") is None
    (tmp_path / "rubric.txt").write_text("Rate $answer")
    assert judged_by(prompt="rubric.txt")["rubric_sha"] != first["rubric_sha"]
    monkeypatch.setenv("CCAT_BERTSCORE_MODEL", "roberta-large")
    monkeypatch.setenv("CCAT_BERTSCORE_LAYERS", "17")
    bert = {"encoder": "roberta-large", "layer": 17, "baseline": None}
    assert scorer_of("bertscore_diff") == bert
    assert "smooth:exp" in scorer_of("bleu")["sacrebleu"]
    assert scorer_of("exact_match") is None


@pytest.mark.long
def test_the_layer_that_bert_score_chooses_is_stated(monkeypatch):
    pytest.importorskip("bert_score", reason="the extra `bertscore` is not installed")
    monkeypatch.setenv("CCAT_BERTSCORE_MODEL", "roberta-large")
    monkeypatch.delenv("CCAT_BERTSCORE_LAYERS", raising=False)
    assert scorer_of("bertscore")["layer"] == 17


@pytest.mark.long
def test_logs_carry_the_scorer_into_the_bank_and_a_run_with_another_is_refused(
    bench, tmp_path, monkeypatch
):
    import lm_eval.evaluator

    monkeypatch.setattr(lm_eval.evaluator, "evaluate", lm_eval.evaluator.evaluate)
    record_scorers()
    record_scorers()  # once is enough
    results = bench.stock(["texts"], bootstrap_iters=0)
    found = results["configs"]["texts"]["metadata"][SCORER]
    assert set(found) == {"bleu", "chrf", "ter"}
    bench.write_logs(tmp_path / "logs", ["texts"], {})
    table = ScoreTable.read(tmp_path / "logs", metric="bleu", task="texts")
    assert table.settings["scorer"] == found and table.settings["fewshot_seed"] == 1234
    bank = calibrate(table, method="paper")
    session = open_session("texts", Copyist(), include_path=str(bench.tasks))

    def check(**changes):
        settings = {**session.settings, **changes}
        where = {"doc_ids": session.doc_ids, "doc_hashes": session.doc_hashes}
        return check_bank(bank, task="texts", filters=session.filters, settings=settings, **where)

    assert not any("scorer" in words or "fewshot_seed" in words for words in check())
    other = {"bleu": {"sacrebleu": found["bleu"]["sacrebleu"].replace("case:mixed", "case:lc")}}
    with pytest.raises(BankMismatchError, match=r"scorer's sacrebleu .*case:lc"):
        check(scorer=other)
    assert any("fewshot_seed is 7" in words for words in check(fewshot_seed=7))


def test_the_seed_of_drawn_examples_is_a_setting(bench):
    def seed(task, **options):
        session = open_session(task, Copyist(), include_path=str(bench.tasks), **options)
        return session.settings["fewshot_seed"]

    assert seed("texts") == 1234 and seed("texts", fewshot_seed=7) == 7
    assert seed("sums") is None  # no examples
    [task] = bench.manager().load(["texts"])["tasks"].values()
    task.set_fewshot_seed(seed=99)
    assert internals.fewshot_seed(task) is None
    task.set_fewshot_seed(seed=1234)
    assert internals.fewshot_seed(task) == 1234


@pytest.mark.long
def test_scores_of_logs_are_those_that_the_harness_aggregated(bench):
    for task, metric, filter in (
        ("sums", "exact_match", "strict"), ("sums", "exact_match", "majority"),
        ("choices", "acc", "none"),
    ):  # fmt: skip
        bench.bank(task, metric, filter)
        logs = bench.folder / "logs" / task
        table = ScoreTable.read(logs, metric, task, filter)
        assert all(len(text) == 64 for text in table.doc_hashes) and not table.warnings
        assert table.settings["task_version"] == 1.0 and table.settings["chat_template"] is False
        for model, scores in zip(table.models, table.raw):
            [results] = logs.glob(f"*{model}/results_*.json")
            values = json.loads(results.read_text())["results"][task]
            assert scores.mean() == pytest.approx(values[f"{metric},{filter}"], abs=1e-12)


def test_results_name_the_scorers_of_their_metrics_beside_what_the_task_states(monkeypatch):
    monkeypatch.setenv("CCAT_BERTSCORE_MODEL", "roberta-large")
    monkeypatch.setenv("CCAT_BERTSCORE_LAYERS", "17")
    values = {"alias": "t", "bertscore,none": 0.5, "bertscore_stderr,none": 0.1, "acc,none": 1.0}
    configs = {"t": {"metadata": {"version": 2.0}}, "u": {}, "plain": {}}
    sentences = {"alias": "u", "sentence_bleu,none": 20.0, "bleu_stderr,none": 0.1}
    results = {
        "results": {"t": values, "u": sentences, "plain": {"acc,none": 1.0}}, "configs": configs
    }  # fmt: skip
    add_scorers(results)
    scorer = {"encoder": "roberta-large", "layer": 17, "baseline": None}
    assert configs["t"]["metadata"] == {"version": 2.0, SCORER: {"bertscore": scorer}}
    # Single sentences are scored by what scores a corpus.
    assert configs["u"] == {"metadata": {SCORER: {"bleu": scorer_of("bleu")}}}
    assert configs["plain"] == {}
    assert add_scorers(None) is None  # all processes but the first have no results


def test_a_number_of_the_tasks_own_code_is_not_said_to_be_of_sacrebleu():
    def own(items):
        return items

    for aggregation, scorers in (("mean", None), (own, {"ter"})):
        listed = [{"metric": "ter", "aggregation": aggregation}]
        results = {"results": {"t": {"ter,none": 50.0}}, "configs": {"t": {"metric_list": listed}}}
        add_scorers(results)
        named = results["configs"]["t"].get("metadata", {}).get(SCORER)
        assert (named and set(named)) == scorers


def test_tasks_that_were_asked_in_two_ways_have_a_mark_of_both():
    ways = [{"num_fewshot": n, "generation_kwargs": {}} for n in (0, 5)]
    one, both, turned = (
        signed("seed:0", "t", asking=asking) for asking in (ways[:1] * 2, ways, ways[::-1])
    )
    assert "fewshot:0" in one and "fewshot" not in both and len({one, both, turned}) == 3


def test_a_metric_on_the_scale_of_its_items_is_scored_as_without(monkeypatch):
    monkeypatch.setenv("CCAT_COMET_MODEL", "Unbabel/some")
    assert scorer_of(f"comet{ITEM_SCALED}") == scorer_of("comet") == {"checkpoint": "Unbabel/some"}
