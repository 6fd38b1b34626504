"""Scores beside an adaptive run: they are of all of its documents, or refused by what differs."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scores.test_harness_logs import sample_row, write_run
from worlds.bench import TASK

from lm_eval_ccat import ItemBank, ScoreTable, compare
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.live.shared_documents import LoggedSide, SharedDocuments

SETTINGS = {"max_items": 40, "stop": "limits"}


@pytest.fixture
def run(bench, server):
    bench.ranked(server, ["m01", "m11"], bank="", **SETTINGS)
    return bench.run()


@pytest.fixture
def documents(run):
    """doc_id and hash of each document of the task, as the run's directory lists them."""
    bank = ItemBank.load(run / "bank.json")
    return dict(zip(bank.doc_ids, bank.doc_hashes))


def scores_on(documents, **about):
    scores = np.random.default_rng(1).random((1, len(documents)))
    hashes = list(documents.values())
    return ScoreTable.from_arrays(
        scores, ["full"], list(documents), metric="share", task=TASK,
        doc_hashes=hashes if any(hashes) else None, **about,
    )  # fmt: skip


def both_ways(run, table, fitting):
    """Compare with the run as baseline and as candidate; the outcomes, or what is refused."""
    for sides, names in (((run, table), ("m11", "full")), ((table, run), ("full", "m11"))):
        if fitting is None:
            yield compare(*sides, models=names)
            continue
        with pytest.raises(UsageError, match=fitting):
            compare(*sides, models=names)


@pytest.mark.long
def test_scores_on_all_documents_of_a_run_are_an_exact_mean(run, documents):
    table = scores_on(documents)
    for found in both_ways(run, table, None):
        overall = found.outcomes[0].overall
        assert table.raw.mean() in (
            pytest.approx(overall.baseline), pytest.approx(overall.candidate)
        )  # fmt: skip
        assert not any("task_version" in warning for warning in found.warnings)


@pytest.mark.long
@pytest.mark.parametrize("hashed", [True, False])
def test_scores_on_other_documents_than_a_run_asked_are_refused(run, documents, hashed):
    size, ids = len(documents), list(documents)
    known = documents if hashed else dict.fromkeys(documents)
    half = {doc_id: known[doc_id] for doc_id in ids[: size // 2]}
    more = {**known, "x1": None}
    for table, words in (
        (scores_on(half), rf"has scores on {size // 2} documents, .* mean over {size}; doc_id "),
        (scores_on({f"z{k}": None for k in ids}), rf"{size} of {size} documents of .* none of"),
        (scores_on({str(k): value for k, value in more.items()}), r"none of .*doc_id '?0"),
    ):
        list(both_ways(run, table, words))


@pytest.mark.long
def test_documents_of_another_text_are_refused_by_both_hashes(run, documents):
    changed = {**documents, 7: "f" * 64}
    for sides in (("candidate", "baseline"), ("baseline", "candidate")):
        words = f"document 7 is ffffffff in the {sides[0]} and {documents[7][:8]} in the {sides[1]}"
        fitting = ((run, scores_on(changed)), ("m11", "full"))
        if sides[0] == "baseline":
            fitting = tuple(part[::-1] for part in fitting)
        with pytest.raises(UsageError, match=rf"{words}; 1 of {len(documents)} documents differ"):
            compare(*fitting[0], models=fitting[1])


@pytest.mark.long
def test_an_estimate_of_one_model_is_compared_with_all_of_its_documents(
    bench, server, ccat, documents
):
    """Of `run --adaptive`, whose samples name the documents that were asked."""
    out = bench.folder / "adaptive"
    ccat(*bench.adaptive(server, "m11", "--max_items", 40, "--log_samples", "--output_path", out))
    list(both_ways(out, scores_on(documents), None))
    other, fewer = dict.fromkeys(documents, "f" * 64), dict(list(documents.items())[:100])
    list(both_ways(out, scores_on(other), r"ffffffff in the .* differ \(doc_hash\)"))
    list(both_ways(out, scores_on(fewer), r"has scores on 100 documents, .* the mean over 120"))


@pytest.mark.long
def test_what_the_reader_says_of_scores_reaches_the_comparison(run, documents, tmp_path):
    rows = [
        {**sample_row(doc_id, {"share": 0.5 + doc_id % 2 / 4}), "doc_hash": sha}
        for doc_id, sha in documents.items()
    ]
    for row in rows:
        del row["arguments"], row["prompt_hash"]
    tables = []
    for version in (1.0, 99):
        logs = tmp_path / f"version-{version}"
        write_run(logs, "full", rows, task=TASK, version=version, shots=7)
        # Without its logs, which scored otherwise.
        tables.append(replace(ScoreTable.read(logs, range=(0, 1)), sources=()))
    for found in both_ways(run, tables[0], None):
        assert any(warning.startswith("num_fewshot differs: ") for warning in found.warnings)
        assert set(tables[0].warnings) <= set(found.warnings)
    list(both_ways(run, tables[1], "task_version is (1.0|99) in the baseline and"))
    write_run(
        tmp_path / "limited", "full", rows[:100], task=TASK, limit=100,
        samples={"original": len(rows), "effective": 100},
    )  # fmt: skip
    limited = replace(ScoreTable.read(tmp_path / "limited", range=(0, 1)), sources=())
    list(both_ways(run, limited, r"has scores on 100 documents, .*--limit"))


@pytest.mark.long
def test_runs_of_other_documents_are_refused_and_a_result_alone_is_said_to_know_none(
    bench, server, run, tmp_path
):
    def ranked(name, change=lambda text: text):
        bench.rewrite(lambda file, text: change(text))
        bench.ranked(server, ["m01", "m11"], bank="", name=name, **SETTINGS)
        return bench.run(name)

    again = ranked("again")
    assert not compare(run, again, models=("m01", "m11")).warnings
    alone = tmp_path / "alone" / "result.json"
    alone.parent.mkdir()
    alone.write_bytes((run / "result.json").read_bytes())
    for sides in ((alone, again), (again, alone)):
        told = compare(*sides, models=("m01", "m11")).warnings
        assert [w for w in told if w.startswith(f"documents unknown: {alone} stands without its")]
    content = json.loads(alone.read_text()) | {"items_of_benchmark": 7}
    alone.write_text(json.dumps(content))
    with pytest.raises(UsageError, match="over 7 documents, the candidate over 120"):
        compare(alone, again, models=("m01", "m11"))


@pytest.mark.long
@pytest.mark.parametrize("logged", [True, False])
@pytest.mark.parametrize(
    ("before", "after", "words", "change"),
    [
        ("max_gen_toks: 64", "max_gen_toks: 63", "max_gen_toks is 64 in the base", "cut"),
        ("return {", "return  {", "the scoring code of loopback_task differs", "scoring"),
        ("version: 1.0", "version: 2.0", "task_version is 1.0 in the base", "scoring"),
    ],
)
def test_runs_of_another_identity_are_refused_or_accepted_and_told(
    bench, server, run, logged, before, after, words, change
):
    """By what the journals state, with and without the logs of the answers."""
    bench.rewrite(lambda file, text: text.replace(before, after))
    bench.ranked(server, ["m01", "m11"], bank="", name="other", **SETTINGS)
    sides = run, bench.run("other")
    for file in () if logged else [file for side in sides for file in side.glob("*/*_2*.json*")]:
        file.unlink()
    with pytest.raises(UsageError, match=rf"{words}.*--accept_change {change}"):
        compare(*sides, models=("m01", "m11"))
    told = compare(*sides, models=("m01", "m11"), accept_change=[change]).warnings
    assert [warning for warning in told if words in warning]


def test_several_answers_to_a_document_are_draws_whatever_settings_say():
    raw = np.random.default_rng(0).random((2, 30))
    repeated = ScoreTable.from_arrays(raw, ["a", "a"], configs=["repeat 1", "repeat 2"])
    once = ScoreTable.from_arrays(raw[:1], ["b"])
    for tables, sampled in (((repeated, once), True), ((once, once), False)):
        sides = [
            LoggedSide(role, table.models[0], table, table)
            for role, table in zip(("baseline", "candidate"), tables)
        ]
        assert SharedDocuments.of(sides, []).sampled == sampled
