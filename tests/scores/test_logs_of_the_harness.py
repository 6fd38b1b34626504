"""Logs written by the installed harness: scores come back as the harness aggregated them."""

from __future__ import annotations

import json

import numpy as np
import pytest
import sacrebleu

from lm_eval_ccat.scores import ScoreTable

TASK = """
task: capitals
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
test_split: test
output_type: generate_until
doc_to_text: "Capital of {{country}}?"
doc_to_target: "{{capital}}"
generation_kwargs: {until: ["\\n"], temperature: 0.0}
metric_list:
  - metric: exact_match
  - metric: chrf
filter_list:
  - {name: whole, filter: [{function: take_first}]}
  - name: last_word
    filter:
      - {function: regex, regex_pattern: "(\\\\w+)$"}
      - {function: take_first}
metadata: {version: 2.0}
"""
CAPITALS = {"France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Peru": "Lima", "Cuba": "Havana"}


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    lm_eval = pytest.importorskip("lm_eval")
    from lm_eval.api.model import LM
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    class Atlas(LM):
        """Knows the first few capitals; answers in a sentence when it is chatty."""

        def __init__(self, known, chatty):
            super().__init__()
            self.known, self.chatty = known, chatty

        def generate_until(self, requests, disable_tqdm=False):
            asked = [request.args[0].split("of ")[1].rstrip("?") for request in requests]
            known = dict(list(CAPITALS.items())[: self.known])
            words = [known.get(country, "nowhere") for country in asked]
            return [f"It is {word}" for word in words] if self.chatty else words

        def loglikelihood(self, requests):
            raise NotImplementedError

        loglikelihood_rolling = loglikelihood

    folder = tmp_path_factory.mktemp("harness")
    data = folder / "capitals.jsonl"
    data.write_text(
        "".join(json.dumps({"country": c, "capital": k}) + "\n" for c, k in CAPITALS.items())
    )
    (folder / "capitals.yaml").write_text(TASK.replace("DATA", str(data)))
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    found = {}
    for name, known, chatty in (("plain", 4, False), ("chatty", 2, True)):
        tracker = EvaluationTracker(output_path=str(folder / "out"))
        results = lm_eval.simple_evaluate(
            model=Atlas(known, chatty),
            model_args=f"pretrained=atlas/{name}",
            tasks=["capitals"],
            task_manager=manager,
            evaluation_tracker=tracker,
            bootstrap_iters=0,
        )
        samples = results.pop("samples")
        tracker.save_results_aggregated(results=results, samples=samples)
        tracker.save_results_samples("capitals", samples["capitals"])
        found[f"atlas/{name}"] = results["results"]["capitals"]
    return folder / "out", found


def test_scores_and_settings_are_those_of_the_harness(logs):
    folder, found = logs
    for filter in ("whole", "last_word"):
        table = ScoreTable.read(folder, metric="exact_match", filter=filter)
        assert sorted(table.models) == ["atlas/chatty", "atlas/plain"]
        for model, row in zip(table.models, table.raw):
            assert row.mean() == pytest.approx(found[model][f"exact_match,{filter}"], abs=1e-12)
    assert table.settings["task_version"] == 2.0 and table.settings["chat_template"] is False
    assert table.settings["generation_kwargs"]["temperature"] == 0.0 and not table.warnings
    assert table.doc_ids == (0, 1, 2, 3, 4) and all(len(h) == 64 for h in table.doc_hashes)
    pairs = ScoreTable.read(folder, metric="chrf", filter="whole")
    wanted = [
        sacrebleu.sentence_chrf(c if n < 4 else "nowhere", [c]).score
        for n, c in enumerate(CAPITALS.values())
    ]
    plain = pairs.raw[pairs.models.index("atlas/plain")]
    np.testing.assert_allclose(plain, wanted, atol=1e-12)
