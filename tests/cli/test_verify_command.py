"""`verify --full`: what was claimed and what held, from results as `rank` and `run` leave them."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from worlds.bench import write_adaptive
from worlds.boards import draw, drive, of

from lm_eval_ccat import ItemBank, Ranker, __version__, calibrate
from lm_eval_ccat.cli import verify as verify_command
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.live.stored import stored_rankings
from lm_eval_ccat.live.verify import _contradictions, self_contradictions
from lm_eval_ccat.metrics import Scale
from lm_eval_ccat.scores import ScoreTable
from lm_eval_ccat.scores.reading import Logged

SCALE = Scale(0, 25, higher_is_better=False)


@pytest.fixture(scope="module")
def table():
    raw = SCALE.restore(draw(np.linspace(-1.2, 1.2, 14), 200, seed=3))
    return ScoreTable.from_arrays(raw, [f"m{n:02d}" for n in range(14)], scale=SCALE, metric="mqm")


@pytest.fixture(scope="module")
def content(table):
    """The result of four models."""
    names = ["m01", "m05", "m06", "m12"]
    bank = calibrate(table.without(names), method="paper")
    ranker = Ranker(bank, models={m: 1.0 for m in names}, budget=100)
    result = drive(ranker, of(table.select(names).scores, names))
    terms = [{"task": None, "metric": "mqm", "filter": None, "weight": 1.0}]
    return {"terms": terms, **result.to_dict()}


@pytest.fixture
def verified(content, table, tmp_path, capsys):
    """Verifies the result by scores, of these models; exit code, output, errors."""

    def verify(*more, raw=table.raw, models=table.models):
        (tmp_path / "result.json").write_text(json.dumps(content))
        full = ScoreTable.from_arrays(raw, models=list(models), scale=SCALE, metric="mqm")
        full.write(tmp_path / "full.parquet")
        code = main(["verify", str(tmp_path), "--full", str(tmp_path / "full.parquet"), *more])
        return (code, *capsys.readouterr())

    return verify


@pytest.mark.long
def test_order_intervals_and_pairs_are_compared(verified, content, table, tmp_path):
    out = tmp_path / "audit.json"
    code, printed, _ = verified("--json", str(out))
    assert code == 0 and printed.splitlines()[0].endswith(": 95% intervals against full results")
    found = json.loads(out.read_text())
    truth = dict(zip(table.models, table.raw.mean(axis=1)))
    for name, one in found["models"].items():
        claim = content["models"][name]
        assert one["truth"] == pytest.approx(truth[name])
        z = (claim["estimate"] - truth[name]) / claim["standard_error"]
        assert one["z"] == pytest.approx(z)
        assert one["held"] == (claim["interval"][0] <= truth[name] <= claim["interval"][1])
    # Lower is better: the true order is by ascending mean.
    assert found["true_order"] == sorted(content["order"], key=truth.__getitem__)
    sure = [p for p in found["pairs"] if p["held"] is not None]
    assert found["decided"] == {"held": sum(p["held"] for p in sure), "of": len(sure)}
    assert f"{found['decided']['held']} of {len(sure)} in the full order" in printed
    assert "claimed order" in printed and "m12 > " in printed
    assert len(found["pairs"]) == 6 and found["items"]["full"] == 800


@pytest.mark.parametrize("missed", [0, 1, 2, 3])
def test_more_intervals_that_miss_than_chance_explains_are_found(
    verified, content, missed, monkeypatch
):
    """Of four, two miss in 1.4% of runs at 95%, and three in 0.05%."""
    for row in list(content["models"].values())[:missed]:
        monkeypatch.setitem(row, "interval", [row["interval"][0] - 10.0, row["interval"][0] - 9.0])
    code, printed, _ = verified()
    assert (code, "in 0.0005 of runs" in printed) == ((3, True) if missed > 2 else (0, False))
    monkeypatch.setitem(content, "sampled", True)  # the full results are draws themselves
    assert verified()[0] == 0


def test_reference_models_need_no_full_results(verified, content):
    models, order = content["models"], content["order"]
    code, alone, _ = verified()
    content["models"] = {**models, "k": {**models[order[0]], "n_items": 0, "known": True}}
    content["order"] = ["k", *order]
    again, printed, said = verified()
    content["models"], content["order"] = models, order
    assert code == again == 0 and printed == alone, said


def test_what_does_not_fit_is_named(verified, content, table):
    best, worst = content["order"][0], content["order"][-1]
    swap = {best: worst, worst: best}
    code, printed, _ = verified(models=[swap.get(m, m) for m in table.models])
    assert code == 0 and "NO" in printed
    assert f"did not hold: {best} better ({best} against {worst}" in printed
    code, _, error = verified(models=[f"org/{m}" for m in table.models])
    assert code == 2 and "no full results of m" in error
    asked = {name: row["items"] for name, row in content["models"].items()}
    for row in content["models"].values():
        row["items"] = [item + 1000 for item in row["items"]]
    code, _, error = verified()
    assert code == 2 and "have none of the documents that the run asked" in error
    for name, row in content["models"].items():
        row["items"] = asked[name]
    raw = table.raw[:, :150].copy()
    raw[1, :7] = np.nan
    code, _, error = verified(raw=raw)
    assert code == 0 and "benchmark has 200 items, the full results have 150" in error
    assert "m01: 7 of 150 full scores are missing" in error


def test_the_models_that_have_full_results_are_compared_and_the_others_named(
    verified, content, table, tmp_path, ccat
):
    best, *_ = content["order"]
    others = [model for model in table.models if model != best]
    rows = table.raw[[model != best for model in table.models]]
    code, printed, error = verified(raw=rows, models=others)
    assert code == 0 and f"not compared, for lack of full results: {best}\n" in error
    assert "claimed order  " + " > ".join(content["order"][1:]) in printed
    table.select([best]).write(tmp_path / "best.parquet")
    both = tmp_path / "full.parquet", tmp_path / "best.parquet"
    done = ccat("verify", tmp_path, "--full", *both)
    assert done.out == verified()[1] and "lack of full results" not in done.err


@pytest.mark.parametrize("name", ["results", "mine"])  # by --output_path out, and out/mine.json
def test_the_results_file_of_an_adaptive_run(name, table, tmp_path, ccat):
    table.write(tmp_path / "full.parquet")
    block = {"metric": "mqm", "scale": SCALE.to_dict(), "items": 30, "items_total": 200}
    file = tmp_path / f"{name}_2026-01-01T00-00-00.json"
    [stored] = stored_rankings(write_adaptive(file, "m07", 9.0, 0.5, block=block))
    assert stored.models == ["m07"]
    out = ccat("verify", tmp_path, "--full", tmp_path / "full.parquet").out
    assert f"{(9.0 - table.raw[7].mean()) / 0.5:+.2f}" in out


def test_a_model_without_a_name_is_called_as_in_its_full_results(tmp_path):
    about = {"model_source": "echo", "config": {"model_args": {"system": 3}}}
    file = tmp_path / "results_2026-01-01T00-00-00.json"
    [stored] = stored_rankings(write_adaptive(file, "qdpv68r5", 0.5, 0.1, **about))
    assert stored.models == ["echo:system=3"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "cannot be read as a result"),
        ("{}", "neither a result of `rank`"),
        ('{"models": {"a": {}}, "pairwise": []}', "not a complete result"),
    ],
)
def test_what_is_no_result_is_refused(tmp_path, ccat, content, said):
    (tmp_path / "result.json").write_text(content)
    assert said in ccat("verify", tmp_path, "--full", tmp_path, code=1).err


def test_the_best_of_errors_comes_first_without_contradicting_itself(content):
    """Four models of which the better ones have the fewer errors."""
    estimates = [content["models"][name]["estimate"] for name in content["order"]]
    assert estimates == sorted(estimates) and self_contradictions(content) == []
    turned = {**content, "scale": {**content["scale"], "higher_is_better": True}}
    assert any("neither that of the ranks" in text for text in self_contradictions(turned))


def test_the_estimate_of_a_known_model_lies_in_its_interval_too():
    ranker = Ranker(ItemBank.blank(range(50)), ["a"], known={"k": 0.4, "l": (0.5, 0.02, 0.5)})
    for model, item in ranker.ask(10):
        ranker.tell(model, item, 0.3 + 0.1 * (item % 2))
    content = ranker.result().to_dict()
    assert self_contradictions(content) == []
    content["models"]["l"]["interval"] = [0.6, 0.7]
    assert self_contradictions(content) == ["l: estimate 0.5 outside 0.6 to 0.7"]


@pytest.mark.parametrize(("recorded", "differs"), [(4, False), (3, True), (0, False)])
def test_how_many_answers_were_empty_is_no_contradiction_of_a_journal(content, recorded, differs):
    """Exit code 4 is of models that answered next to nothing, by an option of one command."""
    told = [{**content, "warnings": [], "exit_code": code} for code in (recorded, 0)]
    _, judged = _contradictions(*told, __version__)
    assert any("exit_code" in text for text in judged) == differs


def test_a_result_lacks_no_warning_of_its_journal_and_may_have_others(content):
    recorded, now = ({**content, "warnings": texts, "exit_code": 0} for texts in (["b"], ["a"]))
    _, [judged] = _contradictions(recorded, now, __version__)
    assert judged == 'warnings: recorded nothing, now "a"'


@pytest.mark.parametrize(
    ("recorded", "of_this_version", "of_another"),
    [({"confidence": 0.5}, True, True), ({"mood": "good"}, True, False)],
)
def test_only_a_result_of_another_version_may_have_other_keys(
    content, recorded, of_this_version, of_another
):
    """A figure that both versions have must be the same."""
    now = {**content, "warnings": [], "exit_code": 0}
    for version, contradicts in ((__version__, of_this_version), ("0.0.1", of_another)):
        _, judged = _contradictions({**now, **recorded}, now, version)
        assert bool(judged) == contradicts


@pytest.mark.parametrize(
    ("full", "names"), [(["m01", "m05"], {}), (["m05"], {"m01": "m05"}), (["m01"], {})]
)
def test_full_results_under_a_run_s_own_name_come_before_those_under_the_name_in_logs(
    table, monkeypatch, ccat, full, names
):
    """Logs call m05 what the run calls m01; full results may have either, or both."""
    stored = SimpleNamespace(
        outcome=Logged(None, "mqm", None), scale=SCALE, models=[], content={}, source="run/result",
        logged_names=lambda: {"m05": "m01"},
    )  # fmt: skip
    outcome = SimpleNamespace(
        to_dict=dict, to_text=str, content={"warnings": []}, intervals_fail=False
    )
    compared = []
    for name, part in (
        ("stored_ranking", lambda *_: stored),
        ("read_beside", lambda *_, **__: table.select(full)),
        ("audit", lambda _, table, names: compared.append(names) or outcome),
    ):
        monkeypatch.setattr(verify_command, name, part)
    monkeypatch.setattr(verify_command.verifying, "stands_alone", lambda _: False)
    ccat("verify", "run", "--full", "logs")
    assert compared == [names]
