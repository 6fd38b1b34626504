"""The journal of a run gives its scores to who asks for partial runs, and to nobody else."""

from __future__ import annotations

import json
from datetime import date

import numpy as np
import pytest

from lm_eval_ccat import ItemBank, ScoreTable, calibrate
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import ScoreTableError
from lm_eval_ccat.testing.methods import example_table


def write_journal(folder, models, docs=range(6), drawn=False):
    folder.mkdir()
    task = {"name": "toy_task", "metric": "toy", "filter": None, "settings": {}}
    scale = {"low": 0.0, "high": 1.0, "higher_is_better": True, "cap": None}
    lines = [{"op": "header", "task": task, "report": {"scale": scale}}]
    table = example_table()
    for model in models:
        pairs = [[model, table.doc_ids[i]] for i in docs]
        lines.append({"op": "ask", "pairs": pairs, "draws": [0.1 if drawn else None] * len(pairs)})
        own = table.select([model]).scores[0]
        lines += [{"op": "tell", "model": model, "item": table.doc_ids[i], "score": float(own[i])}
                  for i in docs]  # fmt: skip
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "journal.jsonl").write_text(text + '{"op": "tell", "mod')
    return folder


def test_only_who_asks_for_partial_runs_gets_the_scores(tmp_path):
    run = write_journal(tmp_path / "run", ["m02", "m09"])
    with pytest.raises(ScoreTableError, match=r"not full results; `bank update` takes it"):
        ScoreTable.read(run)
    table = ScoreTable.read(run, partial=True)
    assert table.chosen == ("adaptive", "adaptive") and table.task == "toy_task"
    assert np.allclose(table.raw, example_table().select(["m02", "m09"]).raw[:, :6])
    assert table.select(["m09"]).chosen == ("adaptive",)
    drawn = write_journal(tmp_path / "drawn", ["m02"], drawn=True)
    assert ScoreTable.read(drawn, partial=True).chosen == ("drawn",)


def test_bank_update_takes_a_run_directory_and_dates_the_bank(tmp_path):
    known = example_table().without(["m02", "m09"])
    known.write(tmp_path / "known.parquet")
    calibrate(known, "default").save(tmp_path / "b.bank.json")
    run = write_journal(tmp_path / "run", ["m02", "m09"], docs=range(0, 40, 3))
    out = tmp_path / "new.bank.json"
    arguments = ["bank", "update", str(tmp_path / "b.bank.json"), "--scores", str(run)]
    arguments += ["--calibrated_on", str(tmp_path / "known.parquet")]
    assert main([*arguments, "-o", str(out)]) == 0
    new = ItemBank.load(out)
    assert {"m02", "m09"} <= set(new.models) and new.made == date.today().isoformat()
