"""`compare` of logs whose answers were scored or drawn in different ways."""

from __future__ import annotations

import json

import pytest
from scores.test_harness_logs import sample_row, write_run

from lm_eval_ccat import compare
from lm_eval_ccat.errors import UsageError


def write(logs, model: str, hashes=None, targets=None, config=(), **changes) -> str:
    """Logs of a model on twenty documents, the results file's configuration of the task changed."""
    rows = [sample_row(k, {"acc": float((k + len(model)) % 3 > 0)}) for k in range(20)]
    for k, row in enumerate(rows):
        if targets is not None:
            row["target"] = targets[k]
            del row["target_hash"]
        elif hashes is not None:
            row["target_hash"] = hashes[k]
    write_run(logs, model, rows, **changes)
    [file] = (logs / model).glob("results_*.json")
    content = json.loads(file.read_text())
    content["configs"]["demo"].update(config)
    file.write_text(json.dumps(content))
    return str(logs / model)


GOLD = [f"{k:08x}" * 8 for k in range(20)]
OTHER = [*GOLD[:7], "f" * 64, *GOLD[8:]]


@pytest.mark.parametrize("folder", ["one", "two"])
def test_other_targets_are_refused_by_document_and_hashes_or_accepted_and_told(
    tmp_path, ccat, folder
):
    a, b = write(tmp_path, "old", GOLD), write(tmp_path, "new", OTHER)
    sides = (a, b) if folder == "two" else (tmp_path, "--models", "old,new")
    err = ccat("compare", *sides, code=2).err
    assert "the target of document 7 is 00000007 in the baseline and ffffffff in the" in err
    assert "--accept_change scoring" in err
    ccat("compare", *sides, "--accept_change", "prompts", code=2)
    told = ccat("compare", *sides, "--accept_change", "scoring", "--json", code=(0, 3, 5))
    [warning] = [w for w in json.loads(told.out)["warnings"] if "target" in w]
    assert warning.startswith("accepted: the target of document 7") and warning in told.err


def test_targets_are_compared_by_hashes_or_by_texts_and_only_of_documents_that_are_compared(
    tmp_path,
):
    texts = [f"answer {k}" for k in range(20)]
    old, same = (write(tmp_path, name, targets=texts) for name in ("old", "same"))
    assert not any("target" in warning for warning in compare(old, same).warnings)
    with pytest.raises(UsageError, match=r"target of document 0 is ~.*; 20 of 20 targets differ"):
        compare(old, write(tmp_path, "new", targets=[*texts[1:], "x"]))
    compare(old, write(tmp_path, "hashed", GOLD))  # cannot be compared
    path = tmp_path / "changed"
    rows = [
        {**sample_row(k, {"acc": 1.0}, doc={"n": k} if k == 7 else None), "target_hash": OTHER[k]}
        for k in range(20)
    ]
    write_run(tmp_path, "changed", rows)
    found = compare(write(tmp_path, "base", GOLD), path)
    assert found.outcomes[0].overall.documents == 19
    assert any("1 document left out" in warning for warning in found.warnings)


def of_metric(**settings):
    return {"metric_list": [{"metric": "acc", "aggregation": "mean", **settings}, {"metric": "f1"}]}


@pytest.mark.parametrize(
    ("first", "second", "differs"),
    [
        ({"process_results": "return f(x)"}, {"process_results": "return 1 - f(x)"}, "process_res"),
        ({"process_results": "return f(x)"}, {}, "process_results"),
        (of_metric(ignore_case=True), of_metric(ignore_case=False), "the setting of metric acc"),
        ({"filter_list": [{"name": "none", "n": 1}]}, {"filter_list": [{"name": "none", "n": 2}]},
         "the setting of filter none"),
        # Layout, addresses, means and what only one side states tell nothing.
        ({"process_results": "def f(x):\n  pass"}, {"process_results": "def f(x): pass"}, ""),
        (of_metric(metric="<function f at 0x7f1>"), of_metric(metric="<function f at 0x8e2>"), ""),
        ({"process_results": "<f at 0x7f1>"}, {"process_results": "<f at 0x8e2>"}, ""),
        (of_metric(), {"metric_list": [{"metric": "acc"}]}, ""),
        (of_metric(ignore_case=True), {}, ""),
    ],
)  # fmt: skip
def test_another_scoring_of_the_metric_is_refused(tmp_path, first, second, differs):
    a, b = write(tmp_path, "old", config=first), write(tmp_path, "new", config=second)
    if differs:
        with pytest.raises(UsageError, match=differs):
            compare(a, b)
    settings = {"accept_change": ["scoring"]}
    found = compare(a, b, settings=settings)
    assert [w.startswith(f"accepted: {differs}") for w in found.warnings] == [True] * bool(differs)


@pytest.mark.parametrize("folder", ["one", "two"])
@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ({}, {"do_sample": True, "temperature": 0.8}, "sampled (temperature 0.8)"),
        ({"do_sample": False, "until": ["a"]}, {"temperature": 0.8}, "sampled (temperature 0.8)"),
        ({"temperature": 0.0}, {"do_sample": True}, "sampled (temperature of the model)"),
        ({}, {"do_sample": False, "temperature": 0.0}, ""),
        ({"temperature": 0.8}, {"temperature": 0.9}, ""),
    ],
)
def test_greedy_answers_beside_sampled_ones_are_told_everywhere(
    tmp_path, ccat, folder, first, second, words
):
    a, b = write(tmp_path, "old", generation=first), write(tmp_path, "new", generation=second)
    sides = (a, b) if folder == "two" else (tmp_path, "--models", "old,new")
    files = tmp_path / "c.json", tmp_path / "c.md"
    said = ccat("compare", *sides, "--json", files[0], "-o", files[1], code=(0, 3, 5))
    content = json.loads(files[0].read_text())
    warning = [warning for warning in content["warnings"] if "one draw" in warning]
    assert len(warning) == bool(words) == said.err.count("one draw")
    assert content["outcomes"][0]["sampled"] == bool(words or first)
    if words:
        assert f"old is greedy (temperature 0.0) and new is {words}: a sampled" in warning[0]
        assert "a sampled answer is one draw" in files[1].read_text()
