"""Commands on harness logs."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sample_rows import sample_row, write_run

from lm_eval_ccat import ItemBank
from lm_eval_ccat.cli.main import main


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Ten models of increasing ability, two filters, two metrics."""
    folder = tmp_path_factory.mktemp("logs")
    rng = np.random.default_rng(0)
    difficulty = rng.normal(size=60)
    for n in range(10):
        chance = 1 / (1 + np.exp(-(n / 3 - 1.5 - difficulty)))
        rows = []
        for name, shift in (("strict", 0.0), ("flexible", 0.1)):
            for i in range(60):
                values = {
                    "exact_match": float(rng.random() < chance[i] + shift),
                    "f1": float(np.clip(chance[i] + shift + 0.1 * rng.normal(), 0, 1)),
                }
                rows.append(sample_row(i, values, filter=name))
        write_run(folder, f"org/model-{n}", rows, day=n + 1)
    return folder


def test_calibrate_on_logs(logs, tmp_path, capsys):
    bank_file = tmp_path / "b.json"
    arguments = ["calibrate", str(logs), "--metric", "f1", "-o", str(bank_file)]
    assert main(arguments) == 1
    assert "2 filters (flexible, strict); name one" in capsys.readouterr().err
    assert main([*arguments, "--filter", "strict", "--task", "demo"]) == 0
    bank = ItemBank.load(bank_file)
    assert (bank.task, bank.metric, bank.filter) == ("demo", "f1", "strict")
    assert len(bank.models) == 10 and bank.models[0] == "org/model-0"
    assert bank.settings["num_fewshot"] == 0
    assert bank.doc_hashes is not None and bank.doc_hashes[3] == sample_row(3, {})["doc_hash"]
    assert "num_fewshot=0" in capsys.readouterr().out


def test_simulate_on_logs(logs, tmp_path, capsys):
    out = tmp_path / "o.json"
    code = main(
        f"simulate --scores {logs} --metric exact_match --filter flexible --methods paper,common "
        f"--holdout 3 --folds 3 --items_per_model 12 --json {out}".split()
    )
    assert code == 0 and "10 models x 60 items" in capsys.readouterr().out
    content = json.loads(out.read_text())
    assert content["settings"]["filter"] == "flexible" and len(content["runs"]) == 6
