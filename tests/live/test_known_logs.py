"""Full results of known models in logs that were asked or scored otherwise than a run does."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from scores.test_harness_logs import sample_row, write_run
from worlds.bench import PROMPT, TASK

from lm_eval_ccat import ScoreTable
from lm_eval_ccat.errors import OtherScoringError, UsageError
from lm_eval_ccat.harness import open_session
from lm_eval_ccat.harness.internals import PlaceholderLM
from lm_eval_ccat.journal import read_journal
from lm_eval_ccat.live.ranking_run import make_plan
from lm_eval_ccat.live.spec import Spec
from lm_eval_ccat.records import Accept
from lm_eval_ccat.scores.prompts import hash_of

GENERATION = {"until": ["\n"], "max_gen_toks": 64}
CUT = {"generation": GENERATION | {"max_gen_toks": 8}}
TEMPERATURE = {"generation": GENERATION | {"temperature": 0.9, "do_sample": True}}
OTHERWISE = [
    (CUT, "generation setting max_gen_toks is 8 in the source and 64 in", "cut"),
    ({"target": "z"}, "the target of document 0 is", "scoring"),
    ({"code": "def f(x): return 1"}, "process_results differs between the source and", "scoring"),
    ({"version": 2.0}, "task_version is 2.0 in the source and 1.0 in the run", "scoring"),
]


@pytest.fixture
def known(bench):
    """Logs of models with known scores, whose documents and prompts are those of the task."""
    session = open_session(TASK, PlaceholderLM(), include_path=str(bench.folder / "tasks"))
    logs = bench.folder / "logs"

    def write(models=("m00", "m02"), target=None, code=None, text=None, **changes):
        for model in models:
            scores = bench.table.raw[bench.table.models.index(model)]
            rows = [sample_row(k, {"share": float(score)}) for k, score in enumerate(scores)]
            for doc_id, row in enumerate(rows):
                prompt = PROMPT.format(id=doc_id)
                row["arguments"]["gen_args_0"] = {"arg_0": prompt, "arg_1": {}}
                row["doc_hash"], row["prompt_hash"] = session.doc_hashes[doc_id], hash_of(prompt)
                row["target_hash"] = hash_of(target or session.target(doc_id))
            write_run(logs, model, rows, task=TASK, **{"generation": GENERATION, **changes})
            [file] = (logs / model).glob("results_*")
            content = json.loads(file.read_text())
            settings = json.loads(json.dumps(session.config, default=str))
            content["configs"][TASK] = settings | content["configs"][TASK]
            content["configs"][TASK]["filter_list"] = settings.get("filter_list")
            content["configs"][TASK] |= {"process_results": code} if code else {}
            content["configs"][TASK] |= {"doc_to_text": text} if text else {}
            file.write_text(json.dumps(content))
        return {"known": "logs", "bank": "", "max_items": 12}

    return write


@pytest.mark.long
def test_known_logs_that_were_asked_and_scored_alike_pass_in_silence(bench, server, known):
    plan = make_plan(Spec.read(bench.config(server.url, ["m03", "m09"], **known())))
    assert not plan.warnings and sorted(plan.known) == ["m00", "m02"]


@pytest.mark.long
def test_known_logs_of_a_task_that_is_not_ranked_are_refused(bench, server, known):
    typo = f"{TASK[:-1]}_"
    spec = Spec.read(
        bench.config(server.url, ["m03", "m09"], **{**known(), "known": {typo: "logs"}})
    )
    with pytest.raises(UsageError, match=f"`known.{typo}`: no such task; did you mean {TASK}"):
        make_plan(spec)
    by_task = replace(spec, known={TASK: spec.known[typo]})
    assert sorted(make_plan(by_task).known) == ["m00", "m02"]


def test_what_makes_prompts_is_not_compared_where_the_prompts_are(bench, server, known):
    """Their texts are those of the run, whatever template the log states."""
    setting = known(text="{{another}} {{template}}")
    plan = make_plan(Spec.read(bench.config(server.url, ["m03", "m09"], **setting)))
    assert not plan.warnings and sorted(plan.known) == ["m00", "m02"]


@pytest.mark.parametrize(("changes", "words", "change"), OTHERWISE)
def test_known_logs_that_were_asked_or_scored_otherwise_are_refused_by_model_and_what_differs(
    bench, server, known, ccat, changes, words, change
):
    known(["m00"], **(changes if "version" in changes else {}))
    config = bench.config(server.url, ["m03", "m09"], **known(["m02"], **changes))
    others = {"prompts", "scoring", "cut", "server"} - {change}
    refused = ccat("rank", config, "--accept_change", ",".join(sorted(others)), code=2).err
    assert f"known model {'m00' if 'version' in changes else 'm02'}: {words}" in refused
    assert f"--accept_change {change}" in refused and not server.asked


@pytest.mark.long
def test_accepted_differences_of_known_logs_are_journalled_by_kind_and_said_everywhere(
    bench, server, known, ccat
):
    config = bench.config(server.url, ["m03", "m09"], **known(code="def f(): 1", **CUT))
    planned = ccat("plan", config).err
    accepted = "accepted: known models m00, m02: "
    kinds = {
        "cut": f"{accepted}generation setting max_gen_toks is 8 in",
        "scoring": f"{accepted}process_results differs between",
    }
    assert all(said in planned for said in kinds.values())
    shown = ccat("rank", config, "--accept_change", ",".join(kinds), code=(0, 3))
    run, page = bench.run(), bench.folder / "page.html"
    ccat("report", run, "-o", page)
    warnings = json.loads((run / "result.json").read_text())["warnings"]
    records = [r for r in read_journal(run / "journal.jsonl")[1] if isinstance(r, Accept)]
    accepted = {record.change: record.what for record in records}
    for kind, said in kinds.items():
        assert said in shown.err and said in " ".join(shown.out.split())
        assert said in page.read_text() and any(said in text for text in warnings)
        assert len(accepted[kind]) == 1 and accepted[kind][0].startswith(said)
    ccat("rank", config, "--resume", "--accept_change", ",".join(kinds), code=(0, 3))
    ccat("verify", run)
    content = json.loads((run / "result.json").read_text())
    (run / "result.json").write_text(json.dumps(content | {"warnings": warnings[1:]}))
    assert "warnings: recorded nothing, now" in ccat("verify", run, code=1).out


@pytest.mark.long
def test_the_result_of_a_leaderboard_is_compared_in_an_adaptive_run_too(bench, server, known, ccat):
    known(code="def f(): 1")
    options = ["--leaderboard", bench.folder / "logs", "--max_items", 12]
    refused = ccat(*bench.adaptive(server, "m09", *options), code=2).err
    assert "known model m00: process_results differs between the source and the run" in refused
    assert not server.asked


@pytest.mark.long
def test_known_results_at_a_temperature_are_told_and_have_the_noise_of_draws(bench, server, known):
    settings = known(["m00"], **TEMPERATURE) | known(["m02"])
    plan = make_plan(Spec.read(bench.config(server.url, ["m03", "m09"], **settings)))
    [told] = [warning for warning in plan.warnings if "temperature" in warning]
    assert "temperature is 0.9 in the source and 0.0 in the run" in told and "(m00)" in told
    assert plan.known["m00"][1] > 0.01 and plan.known["m02"][1] == 0.0
    exact = bench.config(server.url, ["m03", "m09"], question="run", **settings)
    assert make_plan(Spec.read(exact)).known["m00"][1] == 0.0


@pytest.mark.long
def test_what_a_table_without_logs_states_of_its_limits_counts(bench, server, known):
    known(version=2.0)
    table = replace(ScoreTable.read(bench.folder / "logs", range=(0, 1)), sources=())
    config = bench.config(server.url, ["m03", "m09"], bank="", max_items=12)
    with pytest.raises(OtherScoringError, match=r"model m00: task_version is 2\.0 in the source"):
        make_plan(replace(Spec.read(config), known=table))
