"""`rank` through the harness's own local-completions model, over a real loopback server."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext, suppress
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from worlds.bench import TASK, content_of

from lm_eval_ccat import ItemBank, ScoreTable, compare, rank
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.live import forecast, ranking_run, rehearsal
from lm_eval_ccat.live.plan import Plan
from lm_eval_ccat.live.spec import Spec
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.money import Tokens
from lm_eval_ccat.ranker.builder import RankingBuilder
from lm_eval_ccat.ranker.verdicts import Verdicts
from lm_eval_ccat.simulation import power

FOUR = ["m01", "m05", "m07", "m11"]
#: Ten first items of each of two models cost 20 items, or 10 dollars.
FIRST = {"bank": "default.bank.json", "entry": {"price": {"item": 0.5}}}
DEAR = {"bank": "default.bank.json", "entry": {"price": {"item": 1234.51234}}}
BY_TOKENS = {"input": 1.0, "output": 4.0}


def assert_confident_pairs_right(content: dict, truth: dict[str, float]) -> None:
    sure = [p for p in content["pairwise"] if p["p"] > 0.975]
    assert sure, "nothing was decided, so nothing is tested"
    assert [(p["a"], p["b"]) for p in sure if truth[p["a"]] < truth[p["b"]]] == []


@pytest.mark.long
@pytest.mark.parametrize("typical", [100, 500])
def test_in_eight_of_ten_plans_the_ranking_lies_between_their_points(monkeypatch, typical):
    rng, inside = np.random.default_rng(0), 0

    def play(*args: object) -> rehearsal.Played:
        return rehearsal.Played({"m": int(typical * rng.lognormal())}, None, True)

    monkeypatch.setattr(rehearsal, "_play", play)
    for _ in range(1500):
        points = rehearsal.rehearse(None, None, {}, [])["answers"]
        inside += points["low"] <= play().answers["m"] <= points["high"]
    assert 0.76 < inside / 1500 < 0.84


def test_a_played_ranking_of_which_one_answer_s_cost_is_unknown_has_no_cost():
    played = rehearsal.Played({"a": 0, "b": 0})
    played.add("a", 1, 0.5)
    assert played.usd == 0.5
    for model, usd in (("b", None), ("a", 2.0)):
        played.add(model, 3, usd)
    assert played == rehearsal.Played({"a": 4, "b": 3}, None)


@pytest.mark.long
def test_order_agrees_with_full_evaluation_and_costs_less(bench, server, capsys):
    content = bench.ranked(server, FOUR, (0,), entry={"price": BY_TOKENS})
    out = capsys.readouterr().out
    assert content["schema"] == 1
    assert content["order"] == sorted(FOUR, key=lambda m: -bench.truth[m])
    assert_confident_pairs_right(content, bench.truth)
    used = content["items_administered"]
    paid = sum(server.answered.values())  # those behind the deciding answer too
    assert used <= paid < 0.7 * 4 * bench.n_docs
    assert max(server.asked.values()) == 1
    assert content["headline"] in out and "both lead m05 > m01; 95% at every look" in out
    # Tokens are the server's own count: seven words of prompt, ten numbers of answer.
    block = content["models"]["m01"]
    n = block["n_items"]
    assert block["tokens"] == {
        "input": 6.0 * n, "output": 10.0 * n, "counted_by": ["usage"], "estimated": False,
    }  # fmt: skip
    assert block["cost"] == pytest.approx(n * (6 * 1.0 + 10 * 4.0) / 1e6)


@pytest.mark.long
@pytest.mark.parametrize(
    ("settings", "prices", "said"),
    [
        ({"budget": {"items": 60}}, [{"item": 0.5}] * 4,
         ["Together 40 to 60 items, $20.00 to $30.00.", "10 to 30 "]),
        # Ten of each are 15 dollars; the other 15 buy 60 answers of the cheaper two.
        ({"budget": {"usd": 30.0}}, [{"item": 0.25}] * 2 + [{"item": 0.5}] * 2,
         ["Together 40 to 100 items, $15.00 to $30.00.", " 10 to 40 "]),
        ({"bank": None}, [{}] * 4, ["metric share, no bank: random documents."]),
        # Six words of prompt are about 9 tokens, ten numbers about 8: some 40 dollars per million.
        ({"budget": {"usd": 0.01}}, [BY_TOKENS] * 4,
         ["Together 40 to ", "Nothing was asked", "Requests in flight at the end", "$0.00",
          "Smallest difference in share that is decided in 80%", "  0.1    with the bank"]),
    ],
)  # fmt: skip
def test_a_dry_run_says_what_it_takes_and_asks_nothing(
    few_plays, bench, server, ccat, settings, prices, said
):
    of = {model: {"price": price or None} for model, price in zip(FOUR, prices)}
    config = bench.config(server.url, FOUR, of=of, **settings)
    out = ccat("plan", config).out
    assert [text for text in said if text not in out] == [] and "e-0" not in out
    assert out.endswith(f"Next: lm-eval-ccat rank {config}\n")
    assert not server.asked and not config.with_suffix(".run").exists()


@pytest.mark.long
def test_a_gap_wider_than_the_scale_is_refused_with_the_scale(few_plays, bench, server, ccat):
    config = bench.config(server.url, ["m01", "m03"], bank="default.bank.json")
    played = []
    for gap in (5.0, 1.0):
        with suppress(UsageError):
            ranking_run.dry_run(config, gap=gap, on_progress=lambda *_, gap=gap: played.append(gap))
    assert set(played) == {1.0}, "nobody waits for a refusal"
    error = ccat("plan", config, "--gap", 5, code=2).err
    assert "--gap 5 is more than two models can differ by: share has the scale 0 to 1" in error
    assert list(json.loads(ccat("plan", config, "--gap", 1, "--json").out)["by_gap"]) == ["1"]


@pytest.mark.long
def test_a_plan_expects_what_rankings_by_its_bank_then_take(bench, server, ccat, monkeypatch):
    """Six pairs of models that the bank does not know, beside what was expected of such two."""
    settings = {"entry": {"price": BY_TOKENS}, "bank": "default.bank.json"}
    monkeypatch.setattr(power, "N_RANKINGS", 1)  # no smallest difference is looked at
    monkeypatch.setattr(rehearsal, "MOST_RANKINGS", 10)

    def planned_answers(*models, **more):
        config = bench.config(server.url, list(models), name="plan", **{**settings, **more})
        return json.loads(ccat("plan", config, "--json").out)["rehearsal"]

    expected = planned_answers("m01", "m03")
    paid, of_paid, odd = [], [], ["m01", "m03", "m05", "m07", "m09", "m11"]
    for a, b in zip(odd, odd[1:] + odd[:1]):
        content = bench.ranked(server, [a, b], name=f"{a}{b}", **settings)
        paid.append((content["asked"], content["usd"]))
        of_paid.append(content["items_administered"] / content["asked"])
    for (_, spread), of_runs in zip([(0, expected["answers"]), (0, expected["cost"])], zip(*paid)):
        assert spread["low"] <= spread["expected"] <= spread["high"]
        inside = [spread["low"] / 2 <= amount <= 2 * spread["high"] for amount in of_runs]
        assert sum(inside) >= 5, (spread, of_runs)
        assert 0.5 < np.mean(of_runs) / spread["expected"] < 2.0
    used = expected["used"] / expected["answers"]["expected"]
    assert used < 1.0 and abs(used - np.mean(of_paid)) < 0.15, (used, of_paid)
    monkeypatch.setattr(rehearsal, "MOST_RANKINGS", 4)
    # A run to its limits leaves nothing to chance, and a budget is never exceeded by more than
    # what is in flight.
    to_limits = planned_answers("m01", "m03", stop="limits", max_items=30)
    assert to_limits["answers"] == {"expected": 60.0, "low": 60.0, "high": 60.0}
    assert to_limits["used"] == 60.0
    few = planned_answers("m01", "m03", budget={"items": 25})
    assert few["answers"]["high"] <= 25 and few["decided"] < 1.0
    assert planned_answers("m01", "m03", bank=None) is None


@pytest.mark.long
def test_what_is_not_played_on_goes_to_the_limits_and_costs_nothing_known_without_a_price(
    bench, server, ccat, monkeypatch
):
    """However early the play ends, two models with a limit of 30 items take 60, a quarter each."""
    settings = {"bank": "default.bank.json", "stop": "limits", "max_items": 30}
    quarter = {"price": {"item": 0.25}}

    def rehearsed(**more):
        config = bench.config(server.url, ["m01", "m03"], **{**settings, **more})
        return json.loads(ccat("plan", config, "--json").out)["rehearsal"]

    def expected(longest):
        monkeypatch.setattr(rehearsal, "MOST_ANSWERS", longest)
        return rehearsed(stop="decided", max_items=None)

    monkeypatch.setattr(power, "N_RANKINGS", 1)
    monkeypatch.setattr(rehearsal, "MOST_RANKINGS", 6)
    # Where pairs are to be decided, their true differences say what is left.
    cut, played = expected(25), expected(10_000)
    assert 0.5 < cut["answers"]["expected"] / played["answers"]["expected"] < 1.5
    assert cut["decided"] == played["decided"] == 1.0
    monkeypatch.setattr(rehearsal, "MOST_RANKINGS", 1)  # they are all alike
    for longest in (25, 10_000):
        monkeypatch.setattr(rehearsal, "MOST_ANSWERS", longest)
        played = rehearsed(entry=quarter)
        assert played["answers"] == {"expected": 60.0, "low": 60.0, "high": 60.0}
        assert played["used"] == 60.0
        assert played["cost"] == {"expected": 15.0, "low": 15.0, "high": 15.0}
        assert rehearsed(of={"m03": quarter})["cost"] is None


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"budget": {"usd": 1.0}}, 2, "price of model m01 is unknown"),
        ({"harness": {"include_path": "nowhere"}}, 2, "no such folder"),
        ({"entry": {"model": "local-completion"}}, 2, "local-completions"),
        ({"model_args": {"num_concurent": 4}}, 2, "no argument 'num_concurent'"),
        ({"entry": {"memory": 12}, "memory": 10}, 1, "model m01 needs memory 12, more than the 10"),
        ({"prior": "nowhere"}, 2, "`prior:` names logs that do not exist: nowhere"),
        ({"prior": {"m07": "tasks"}}, 2, "`prior:` names m07, which is not ranked"),
        ({"prior": ["m01=tasks"]}, 1, "no samples_<task>_<date>.jsonl found"),
        ({"save_bank": "x.json"}, 1, "save_bank needs one of method 'default' that keeps them"),
        ({"WORLD_SIZE": "2"}, 1, "start `rank` once"),
        ({"metrics": ["bleu"]}, 2, "there is no bank of metric bleu"),
        ({"budget": {"items": 19}, **FIRST}, 2, "give at least {items: 20}"),
        ({"budget": {"usd": 9.0}, **FIRST}, 2, "give at least {usd: 10}"),
        ({"budget": {"usd": 9.0}, **DEAR}, 2, "give at least {usd: 24690.2468}"),
        ({"without": "aiohttp"}, 1, "[api]'"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_refused_before_anything_is_asked(
    bench, server, ccat, monkeypatch, change, code, message
):
    change, mine = dict(change), bench.folder / "mine"
    if "WORLD_SIZE" in change:
        monkeypatch.setenv("WORLD_SIZE", change.pop("WORLD_SIZE"))
    if "without" in change:
        monkeypatch.setitem(sys.modules, change.pop("without"), None)  # as if not installed
    config = bench.config(server.url, ["m01", "m11"], **change)
    assert message in ccat("rank", config, code=code).err.strip().splitlines()[-1]
    if "budget" in change:
        assert message in ccat("plan", config, code=code).err
    begun = "memory" in change  # the one refusal that needs the models
    assert not server.asked and config.with_suffix(".run").exists() == begun
    mine.mkdir()  # somebody's own folder stays
    ccat("rank", config, "--run_dir", mine, code=code)
    assert (mine / "journal.jsonl").exists() == begun


@pytest.mark.long
def test_flags_override_the_file_setting_by_setting(bench, server, ccat, monkeypatch):
    harness = {"include_path": "nowhere", "gen_kwargs": {"max_gen_toks": 30}}
    config = bench.config(server.url, ["m01", "m11"], harness=harness, metrics=["bleu"])
    monkeypatch.chdir(bench.folder / "tasks")
    flags = ["--metric", "share", "--include_path", ".", "--question", "population"]
    out = ccat("rank", config, *flags).out
    assert content_of(config)["metric"] == "share"
    about = f"documents like these {bench.n_docs} of {TASK}"
    assert content_of(config)["estimand"].endswith(f"over {about}")
    assert f"order on items like these {bench.n_docs}" in out
    kept = json.loads((config.with_suffix(".run") / "config.json").read_text())["harness"]
    assert kept["gen_kwargs"] == {"max_gen_toks": 30}
    err = ccat("rank", config, "--task", TASK, code=2).err
    assert "--task cannot be combined with" in err


@pytest.mark.long
def test_tokens_are_estimated_and_marked_without_usage_or_tokenizer(bench, server, capsys):
    server.usage = False
    content = bench.ranked(server, ["m01", "m11"], entry={"price": BY_TOKENS})
    tokens = content["models"]["m01"]["tokens"]
    assert tokens["estimated"] and tokens["counted_by"] == ["estimate"]
    assert "~ marks costs estimated" in capsys.readouterr().out


@pytest.mark.long
def test_the_response_cache_is_a_file_per_model_and_its_answers_cost_nothing(bench, server, capsys):
    harness = {"include_path": "tasks", "use_cache": str(bench.folder / "cached" / "answers")}
    about = {"ahead": 1, "harness": harness, "entry": {"price": BY_TOKENS}}
    first = bench.ranked(server, ["m01", "m11"], name="first", **about)
    paid = sum(server.asked.values())
    second = bench.ranked(server, ["m01", "m11"], name="second", **about)
    assert paid == sum(server.asked.values()) > 0
    assert first["usd"] > 0 and second["money"] == {"billed": 0, "assumed": 0, "unknown": 0}
    n = second["models"]["m01"]["n_items"]
    assert f"{n} of {n} answers are earlier ones and cost nothing" in capsys.readouterr().out
    found = sorted(p.name for p in (bench.folder / "cached").iterdir())
    assert found == ["answers_m01.db", "answers_m11.db"]


@pytest.mark.long
@pytest.mark.parametrize("by_path", [True, False])
def test_a_configuration_beside_its_task_is_not_taken_for_a_task(
    few_plays, bench, server, ccat, by_path
):
    task = {"harness": {}, "task": str(bench.folder / "tasks" / f"{TASK}.yaml")}
    settings = task if by_path else {"harness": {"include_path": "."}}
    config = bench.config(server.url, ["m01", "m11"], **settings)
    ccat("plan", config)


@pytest.mark.long
def test_new_models_find_their_place_among_known_ones(bench, server, capsys, ccat):
    content = bench.ranked(
        server, ["m03", "m09"], bank="default.bank.json", known="known.parquet",
        max_items=30,
    )  # fmt: skip
    out, run = capsys.readouterr().out, bench.run()
    assert len(content["order"]) == 8
    assert {m for m, _ in server.asked} == {"m03", "m09"}
    for name in ("m03", "m09"):
        low, high = content["models"][name]["place"]["rank_interval"]
        truth = sorted([*[*bench.truth][::2], "m03", "m09"], key=lambda m: -bench.truth[m])
        assert low <= truth.index(name) + 1 <= high
        assert f"{name}: rank " in out
    assert "known" in out
    used = content["items_administered"]
    assert f"asked {used} of {2 * bench.n_docs}" in content["headline"]
    ccat("rank", run, "--json", code=(0, 3))
    for one, documents in (("m03", content["models"]["m03"]["n_items"]), ("m00", bench.n_docs)):
        compared = compare(run, run, models=(one, "m02")).outcomes[0].overall
        assert compared.documents == documents  # of a known model all


@pytest.mark.long
def test_the_method_paper_asks_its_first_items_whatever_the_budget_is(bench, server, capsys):
    priced = {"entry": {"price": {"item": 1.0}}, "judge": {"item": 0.5}}
    content = bench.ranked(server, ["m05", "m07"], budget={"items": 19}, **priced)
    for block in content["models"].values():  # the judge's price comes on top
        assert block["usd"] == pytest.approx(1.5 * block["n_items"])
    assert "its first 10 items whatever the budget is" in capsys.readouterr().err
    content = bench.ranked(server, ["m05", "m07"], name="few", max_items=5)
    assert {block["n_items"] for block in content["models"].values()} == {10}
    assert "its first 10 items whatever max_items is" in capsys.readouterr().err


@pytest.mark.long
def test_a_bank_is_borrowed_from_tasks_on_the_same_documents(bench, server, ccat):
    """Donors: the scores of the bank's models on these documents, each with errors of its own."""
    known = ScoreTable.read(bench.folder / "known.parquet")
    rng, donors = np.random.default_rng(0), ["de", "es", "uk"]
    for name in donors:
        error = 0.1 * rng.normal(size=known.n_items) + 0.05 * rng.normal(size=known.raw.shape)
        raw = np.clip(known.raw + error, 0.0, 1.0)
        replace(known, raw=raw, task=name).write(bench.folder / f"{name}.parquet")
    own = known.select([m for m in known.models if m not in FOUR][:2])
    replace(own, task=TASK).write(bench.folder / "own.parquet")
    bank = {"borrow": [f"{name}.parquet" for name in donors], "scores": "own.parquet"}
    config = bench.config(server.url, FOUR, entry={"price": BY_TOKENS}, bank=bank)
    ccat("rank", config)
    result = content_of(config)
    assert_confident_pairs_right(result, bench.truth)
    assert "method:default" in result["signature"]
    ccat("rank", config, "--resume")  # the same bank, or it would refuse
    assert content_of(config)["signature"] == result["signature"]


@pytest.mark.long
@pytest.mark.parametrize("n_models", [2, 6])
def test_files_of_any_number_of_models_rest_on_one_result(bench, monkeypatch, n_models):
    genuine, built = RankingBuilder.ranking, []
    monkeypatch.setattr(
        RankingBuilder, "ranking", lambda self, **how: built.append(how) or genuine(self, **how)
    )
    errors, drawn = Verdicts._drawn_errors, []
    monkeypatch.setattr(
        Verdicts, "_drawn_errors", lambda self, tested: drawn.append(self) or errors(self, tested)
    )
    names = [f"m{n}" for n in range(n_models)]
    config = bench.config("", names, entry={"model": "dummy"}, bank=None, max_items=4, warmup=4)
    assert rank(config, run_dir=bench.run()).exit_code in (0, 3)
    assert len(built) == 1
    # Of two models the chance of being best is known without draws.
    assert len(drawn) == (n_models > 2)
    assert len([*bench.run().glob("m*/results_*.json")]) == n_models


def planned(**settings):
    """A plan of 100 items without a bank, as far as its figures need it."""
    entries = [{"name": name, "model": "dummy"} for name in settings.pop("models", "ab")]
    spec = Spec.read({"task": "t", "models": entries, **settings.pop("spec", {})})
    bank, metric = ItemBank.blank(range(100)), SimpleNamespace(name="f")
    outcome = SimpleNamespace(bank=bank, metric=metric, filter="none")
    costs = {entry.name: SimpleNamespace(known=True, mean=0.01) for entry in spec.models}
    plan = {
        "spec": spec, "items": lambda: range(100), "warmup_items": 10, "most_repeats": 1,
        "scale": Scale(0, 50, higher_is_better=False), "label": "f of t", "sessions": {},
        "noisy": False, "known": None, "max_items": spec.max_items, "limited_by_default": False,
        "outcomes": {"t": outcome},
        "weighted_outcomes": [outcome], "outcome": outcome, "warnings": (),
        "charges": SimpleNamespace(forecasts=costs, budget=None), "warmup_ignores_limits": False,
    }  # fmt: skip
    return SimpleNamespace(**{**plan, **settings})


def test_the_level_of_a_plan_is_divided_among_all_pairs():
    for familywise, pairs in ((True, 6), (False, 1)):
        plan = planned(models="abcd", spec={"familywise": familywise, "confidence": 0.94})
        for of_way in forecast.powers(plan).values():
            assert of_way.level == pytest.approx(0.06 / pairs)


def test_a_gap_is_on_the_metric_s_scale_and_the_slowest_model_sets_the_minutes(monkeypatch):
    monkeypatch.setattr(forecast, "_tokens_per_item", lambda _: Tokens(30.0, 7.0, "estimate"))
    plan = planned()
    plan.spec = replace(plan.spec, models=tuple(
        replace(entry, concurrency=slots) for entry, slots in zip(plan.spec.models, (8, 2))
    ))  # fmt: skip
    way = SimpleNamespace(
        smallest_difference=lambda n: 2.0 / n, items_for_difference=lambda gap: round(4.0 / gap)
    )
    found = forecast.prospects(plan, {"random": way}, gap=5.0)
    assert found["smallest_gap_by_items"][50] == {"random": pytest.approx(50 * 2.0 / 50)}
    [(gap, ways)] = found["by_gap"].items()
    assert gap == "5" and ways["random"] == {
        "items_per_model": 40, "answers": 80, "input_tokens": 2400, "output_tokens": 560,
        "usd": pytest.approx(0.8), "minutes_at_1s": pytest.approx(40 / 2 / 60),
    }  # fmt: skip


def test_a_run_that_may_cost_a_dollar_is_confirmed_and_one_of_cents_begins(monkeypatch):
    monkeypatch.setattr(ranking_run, "need_in_words", lambda _: "")
    monkeypatch.setattr(ranking_run, "offer_in_words", lambda _: "")
    asked = []
    for usd in (0.99, 1.0):
        ceiling = ranking_run._Ceiling("200 answers", usd, "")
        monkeypatch.setattr(ranking_run, "_ceiling", lambda _, ceiling=ceiling: ceiling)
        observer = SimpleNamespace(
            note=lambda _: None, warn=lambda _: None,
            confirm=lambda question, usd=usd: asked.append((usd, question)) or True,
        )  # fmt: skip
        ranking_run._settle_before_start(planned(known=(), key="t"), observer)
    [(usd, question)] = asked
    assert usd == 1.0 and "up to about $1.00" in question


def test_a_budget_that_the_first_items_take_whole_is_enough():
    """Sums of prices round: ten items of .1 and of .2 are more than 3 by a last digit."""
    prices = {"a": 0.1, "b": 0.2}
    assert 10 * sum(prices.values()) > 3.0
    for budget, too_small in ((3.0, False), (2.99, True)):
        charges = SimpleNamespace(budget=budget, prices=prices, currency="usd")
        plan = planned(charges=charges, known=())
        with pytest.raises(UsageError, match=r"\{usd: 3\}") if too_small else nullcontext():
            ranking_run._require_reachable_goal(plan, SimpleNamespace())


def test_a_target_takes_at_least_the_first_items(monkeypatch):
    plan = planned(spec={"stop": "se 0.2"})
    for needed, taken in ((3, 10), (40, 40)):
        ways = {"bank": SimpleNamespace(items_for_error=lambda _, needed=needed: needed)}
        monkeypatch.setattr(forecast, "powers", lambda _, ways=ways: ways)
        assert f"to take about {taken} of 100 documents" in forecast.target_in_words(plan, False)


def test_an_item_that_the_budget_pays_in_part_is_asked_and_the_dearest_answers_bound_the_cost():
    """Of 3.05 dollars, ten items of both models take 3.00 (.1 and .2 an item)."""
    prices = {"a": 0.1, "b": 0.2}
    costs = {name: SimpleNamespace(known=True, mean=price) for name, price in prices.items()}
    about = {"new_ranker": lambda: SimpleNamespace(item_cap=100), "offered": range(100)}
    charges = SimpleNamespace(forecasts=costs, budget=3.05, prices=prices, currency="usd")
    assert forecast._most_items(planned(charges=charges, **about)) == [11, 11]
    # 25 answers: ten of each, and five more, which cost most if the dearer model gives them.
    charges = SimpleNamespace(forecasts=costs, budget=None, prices=prices, currency="items")
    plan = planned(charges=charges, spec={"budget": {"items": 25}}, **about)
    together = forecast._totals(plan, [{"most_items": n} for n in forecast._most_items(plan)])
    assert together.most_items == 25
    assert together.least_cost == pytest.approx(3.0)
    assert together.most_cost == pytest.approx(3.0 + 5 * 0.2)


def test_a_task_of_fewer_items_than_a_warm_up_has_no_more_of_them():
    outcomes = {
        name: SimpleNamespace(bank=ItemBank.blank(range(n)))
        for name, n in (("few", 3), ("many", 90))
    }
    plan = SimpleNamespace(
        warmup=8,
        outcomes=outcomes,
        warmup_ignores_limits=False,
        max_items=None,
    )
    assert Plan.warmup_items.fget(plan) == 3 + 8


@pytest.mark.long
def test_a_plan_counts_what_may_be_in_flight_at_the_end_and_whole_benchmarks(bench, ccat):
    entry = {"price": {"item": 0.01}, "concurrency": 4}
    config = bench.config("", ["m05", "m07"], bank=None, budget={"usd": 1}, entry=entry)
    content = json.loads(ccat("plan", config, "--json").out)
    assert content["overspend_at_most"] == pytest.approx(2 * 4 * 0.01)
    for block in content["models"].values():
        assert block["full_evaluation_cost"] == pytest.approx(bench.n_docs * 0.01)
