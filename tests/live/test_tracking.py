"""A finished ranking in trackers and on the hub, where `harness:` says so: offline."""

from __future__ import annotations

import sys
from unittest.mock import MagicMock

import pytest
from worlds.bench import TASK

KEY, TWO, TASKS = "hf_s3cretTokenOfMine", ["m01", "m11"], {"include_path": "tasks"}


@pytest.mark.long
def test_mlflow_gets_the_result_and_its_settings_may_be_changed(bench, server, monkeypatch, ccat):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((bench.folder / "store").as_uri())
    ours, theirs = ("project=ours,name=first", {"project": "theirs"})
    content = bench.ranked(server, TWO, (0,), harness={**TASKS, "mlflow_args": ours})
    [run] = mlflow.search_runs(experiment_names=["ours"], output_format="list")
    assert run.info.run_name == "first"
    for model, block in content["models"].items():
        assert run.data.metrics[f"estimate/{model}"] == pytest.approx(block["estimate"])
    asked = sum(server.asked.values())
    bench.ranked(server, TWO, (0,), ["--resume"], harness={**TASKS, "mlflow_args": theirs})
    assert sum(server.asked.values()) == asked
    assert len(mlflow.search_runs(experiment_names=["theirs"], output_format="list")) == 1


@pytest.mark.long
def test_a_tracker_that_fails_is_warned_of_and_the_result_stays(bench, server, capsys, monkeypatch):
    wandb = MagicMock()
    wandb.init.side_effect = RuntimeError("no network")
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    bench.ranked(server, TWO, (0,), harness={**TASKS, "wandb_args": {"project": "p"}})
    assert "the result is not in wandb: RuntimeError: no network" in capsys.readouterr().err
    assert wandb.init.call_args.kwargs["project"] == "p"


def test_a_tracker_without_its_package_costs_no_call(bench, server, ccat, monkeypatch):
    monkeypatch.setitem(sys.modules, "trackio", None)
    for args, says in (
        ({"trackio_args": {"project": "p"}}, "[trackio]'"),
        ({"wandb_args": ["p"]}, "`harness.wandb_args` must be a mapping"),
    ):
        config = bench.config(server.url, TWO, harness={**TASKS, **args})
        assert says in ccat("rank", config, code=2).err
        assert not server.asked and not (bench.run() / "result.json").exists()


@pytest.mark.long
@pytest.mark.parametrize("away", [False, True])
def test_the_harness_pushes_the_results_files(away, bench, server, capsys, monkeypatch):
    from lm_eval.loggers import EvaluationTracker

    hub, cards = MagicMock(), []
    monkeypatch.delenv("HF_TOKEN", raising=False)

    def api(token: str | None = None) -> MagicMock | None:
        if token and away:
            raise ConnectionError("no network")
        return hub if token == KEY else None

    monkeypatch.setattr(EvaluationTracker, "_api", staticmethod(api))
    monkeypatch.setattr(EvaluationTracker, "recreate_metadata_card", lambda self: cards.append(1))
    pushed = {"hub_results_org": "us", "push_results_to_hub": True, "push_samples_to_hub": True}
    args = {"hf_hub_log_args": {**pushed, "token": KEY}}
    bench.ranked(server, TWO, (0,), harness={**TASKS, **args})
    said, run = capsys.readouterr(), bench.run()
    for model in TWO:
        assert len(list((run / model).glob("results_*.json"))) == 1
    if away:
        assert "the results files of m01 are not on the hub: no network" in said.err
        assert not hub.upload_file.called
    else:
        assert len(cards) == 2
        paths = [str(call.kwargs["path_in_repo"]) for call in hub.upload_file.call_args_list]
        assert any("m01" in path and "results_" in path for path in paths)
        assert hub.upload_folder.called or any(TASK in path for path in paths)
    for file in (f for f in run.rglob("*") if f.is_file()):
        assert KEY not in file.read_text("utf-8", errors="replace"), file
    assert KEY not in said.out + said.err
