"""`compare` of logs whose answers were scored or drawn in different ways."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scores.test_harness_logs import sample_row, write_run
from worlds.bench import write_adaptive

from lm_eval_ccat import ScoreTable, compare
from lm_eval_ccat.errors import UsageError
from lm_eval_ccat.live.scored import LoggedDocuments, Scoring


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


def without_equal_scores(warnings):
    """The warnings but those of the scores here, which are all 1."""
    return [warning for warning in warnings if not warning.startswith("all ")]


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


@pytest.mark.long
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


def test_targets_of_adaptive_runs_are_compared_whatever_their_models_are_called(tmp_path):
    """The harness calls two revisions of a model alike; only names of ours tell them apart."""
    for day, hashes in enumerate((GOLD, OTHER, GOLD), 1):
        date = f"2026-01-{day:02d}T00-00-00.000000"
        config = {"model_args": f"pretrained=m,revision=step{day}"}
        write_adaptive(tmp_path / f"results_{date}.json", "m", day / 10, 0.02, config=config)
        rows = [{**sample_row(k, {"acc": 1.0}), "target_hash": hashes[k]} for k in range(20)]
        samples = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"samples_t_{date}.jsonl").write_text(samples)
    with pytest.raises(UsageError, match="target of document 7 is 00000007 in the baseline and ff"):
        compare(tmp_path, tmp_path, models=("m@step1", "m@step2"))
    assert compare(tmp_path, tmp_path, models=("m@step1", "m@step3")).verdict == "better"


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
        (of_metric(ignore_case=True), {}, "the setting of metric acc"),
        ({"filter_list": [{"name": "none", "filter": [{"function": "lowercase"}]}]}, {},
         "the setting of filter none"),
        # Layout, addresses, means and what the harness does without being told tell nothing.
        ({"process_results": "def f(x):\n  pass"}, {"process_results": "def f(x): pass"}, ""),
        (of_metric(metric="<function f at 0x7f1>"), of_metric(metric="<function f at 0x8e2>"), ""),
        ({"process_results": "<f at 0x7f1>"}, {"process_results": "<f at 0x8e2>"}, ""),
        (of_metric(), {"metric_list": [{"metric": "acc"}]}, ""),
        ({"filter_list": [{"name": "none", "filter": [{"function": "take_first"}]}]}, {}, ""),
    ],
)  # fmt: skip
def test_another_scoring_of_the_metric_is_refused(tmp_path, first, second, differs):
    a, b = write(tmp_path, "old", config=first), write(tmp_path, "new", config=second)
    if differs:
        with pytest.raises(UsageError, match=differs):
            compare(a, b)
    settings = {"accept_change": ["scoring"]}
    found = compare(a, b, **settings)
    told = without_equal_scores(found.warnings)
    assert [w.startswith(f"accepted: {differs}") for w in told] == [True] * bool(differs)


@pytest.mark.parametrize("folder", ["one", "two"])
@pytest.mark.parametrize(
    ("first", "second", "key", "values"),
    [
        ({"until": ["a"]}, {"until": ["b", "c"]}, "until", ("['a']", "['b', 'c']")),
        ({"max_gen_toks": 64}, {"max_gen_toks": 8}, "max_gen_toks", ("64", "8")),
        ({"max_gen_toks": 64}, {"max_tokens": "8"}, "max_gen_toks", ("64", "'8'")),
        ({"max_gen_toks": 64}, {"max_tokens": "64"}, "", ()),
    ],
)
def test_answers_that_are_cut_off_in_two_ways_are_refused_or_accepted_and_told(
    tmp_path, ccat, folder, first, second, key, values
):
    a, b = write(tmp_path, "old", generation=first), write(tmp_path, "new", generation=second)
    sides = (a, b) if folder == "two" else (tmp_path, "--models", "old,new")
    if not key:
        assert "generation setting" not in ccat("compare", *sides, code=(0, 3, 5)).err
        return
    words = "generation setting {} is {} in the baseline and {} in the candidate"
    words = words.format(key, *values)
    for accepted in ((), ("--accept_change", "prompts")):
        err = ccat("compare", *sides, *accepted, code=2).err
        assert words in err and "--accept_change cut" in err
    files = tmp_path / "c.json", tmp_path / "c.md"
    flags = "--accept_change", "cut", "--json", files[0], "-o", files[1]
    said = ccat("compare", *sides, *flags, code=(0, 3, 5)).err
    [warning] = [w for w in json.loads(files[0].read_text())["warnings"] if "setting" in w]
    assert warning == f"accepted: {words}" and warning in said
    assert "in the baseline and" in files[1].read_text()


def test_tables_that_were_read_from_logs_are_asked_and_scored_alike_as_their_logs_are(tmp_path):
    write(tmp_path / "a", "old", generation={"max_gen_toks": 64})
    write(tmp_path / "b", "new", generation={"max_gen_toks": 8})
    tables = [ScoreTable.read(tmp_path / side) for side in "ab"]
    with pytest.raises(UsageError, match="max_gen_toks is 64 in the baseline and 8 in the cand"):
        compare(*tables)


def test_a_limit_that_the_requests_state_counts_beside_another_one_of_the_results_file(tmp_path):
    paths = []
    for name, limit in (("old", 64), ("new", 8)):
        rows = [sample_row(k, {"acc": float((k + len(name)) % 3 > 0)}) for k in range(20)]
        for row in rows:
            row["arguments"]["gen_args_0"]["arg_1"] = {"max_gen_toks": limit}
        write_run(tmp_path, name, rows, generation={"max_gen_toks": 64})
        paths.append(tmp_path / name)
    with pytest.raises(UsageError, match="max_gen_toks is 64 in the baseline and 8 in the cand"):
        compare(*paths)
    told = compare(*paths, accept_change="cut").warnings
    assert sum("max_gen_toks is 64" in text for text in told) == 1


def test_limits_that_only_samples_or_model_arguments_state_count(tmp_path):
    """A results file beside samples need not state what was sent."""
    paths = []
    for name, limit in (("old", 64), ("new", 8)):
        rows = [sample_row(k, {"acc": float((k + len(name)) % 3 > 0)}) for k in range(20)]
        for row in rows:
            row["arguments"]["gen_args_0"]["arg_1"] = {"max_tokens": limit}
        write_run(tmp_path, name, rows, results=False)
        paths.append(tmp_path / name)
    with pytest.raises(UsageError, match="max_gen_toks is 64 in the baseline and 8 in the"):
        compare(*paths, "acc")
    a, b = (write(tmp_path, name) for name in ("m1", "m2"))
    for side, limit in ((a, 1), (b, 2)):
        arguments = {"config": {"model_args": f"max_gen_toks={limit}"}}
        edited(side, lambda content, arguments=arguments: content.update(arguments))
    with pytest.raises(UsageError, match="max_gen_toks is '1' in the baseline and '2' in the"):
        compare(a, b)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ({"repeats": 8}, {}, "repeats differs between the baseline and the candidate, from char"),
        (
            {"generation_kwargs": {"top_p": 0.9}},
            {},
            "setting top_p is 0.9 in the baseline and none",
        ),
        (
            {"generation_kwargs": {"max_tokens": 8}},
            {},
            "max_gen_toks is 8 in the baseline and none",
        ),
    ],
)
def test_what_need_not_make_two_models_unlike_is_told(tmp_path, first, second, words):
    found = compare(write(tmp_path, "old", config=first), write(tmp_path, "new", config=second))
    [warning] = [warning for warning in found.warnings if words in warning]
    assert warning.endswith("; part of the difference may come from that")


@pytest.mark.parametrize(
    ("setting", "change", "rescored"),
    [
        # Another version may have other prompts as well, which new scores would not undo.
        ("task_version", "scoring", False),
        ("process_results", "scoring", True),
        ("description", "prompts", False),
        ("repeats", "", False),
    ],
)
def test_scoring_both_sides_anew_undoes_another_scoring_and_nothing_else(setting, change, rescored):
    first, second = (Scoring(LoggedDocuments({}, {}), {setting: n}, {}) for n in "12")
    [found] = first.differences(second, ("the old", "the new"))
    assert (found.change, found.rescored) == (change, rescored)
    assert setting in found.text and "the old" in found.text and "the new" in found.text
    # What one side does not state is not compared.
    assert not [*first.differences(second._replace(settings={}), ("the old", "the new"))]


def test_how_answers_are_drawn_is_compared_by_the_temperature_that_servers_are_sent():
    first, second = (
        Scoring(LoggedDocuments({}, {}), {}, {"do_sample": drawn, "temperature": 0.7})
        for drawn in (True, False)
    )
    assert not [*first.differences(second, ("the old", "the new"))]
    cooler = second._replace(generation={"temperature": 0.2})
    [found] = first.differences(cooler, ("the old", "the new"))
    assert "temperature is 0.7 in the old and 0.2 in the new" in found.text and not found.change


@pytest.mark.long
def test_where_logs_hold_no_prompts_what_makes_them_and_the_texts_of_documents_must_agree(tmp_path):
    def logged(name, question="Q", prompt=None, **config):
        rows = [sample_row(k, {"acc": 1.0}, doc={"text": f"{question}{k}"}) for k in range(20)]
        for row in rows:
            del row["prompt_hash"], row["doc_hash"]
            row["arguments"] = {"gen_args_0": {"arg_0": prompt}} if prompt else {}
        write_run(tmp_path, name, rows)
        edited(tmp_path / name, lambda content: content["configs"]["demo"].update(config))
        return tmp_path / name

    base = logged("base", target_delimiter=" ")
    told = without_equal_scores(compare(base, logged("same", target_delimiter=" ")).warnings)
    assert [w for w in told if "unknown" in w] == [
        "prompts unknown: neither side states them, so it is not verified that they are the same"
    ]
    assert len(told) == 1
    for name, other, words in (
        ("delimiter", {"target_delimiter": ""}, "target_delimiter differs between the baseline"),
        ("text", {"question": "R"}, r"text of document 0 is ~\w{8} in .*; 20 of 20 texts differ"),
    ):
        side = logged(name, **other)
        with pytest.raises(UsageError, match=rf"{words}.*accept_change prompts"):
            compare(base, side)
        accepted = compare(base, side, accept_change="prompts").warnings
        assert sum(w.startswith("accepted: ") for w in accepted) == 1
    # Prompts that are known to agree are the same, whatever made them.
    known, alike = (logged(f"p{n}", prompt="Say.", target_delimiter=str(n)) for n in (1, 2))
    assert not without_equal_scores(compare(known, alike).warnings)


@pytest.mark.parametrize("folder", ["one", "two"])
@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ({}, {"do_sample": True, "temperature": 0.8}, "sampled (temperature 0.8)"),
        ({"do_sample": False}, {"temperature": 0.8}, "sampled (temperature 0.8)"),
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


def test_a_temperature_that_stands_in_the_samples_alone_is_told(tmp_path, ccat):
    paths = []
    for name, settings in (
        ("old", {"until": ["a"]}),
        ("new", {"until": ["a"], "temperature": 0.8}),
    ):
        rows = [sample_row(k, {"acc": float((k + len(name)) % 3 > 0)}) for k in range(20)]
        for row in rows:
            row["arguments"]["gen_args_0"]["arg_1"] = settings
        write_run(tmp_path, name, rows)
        paths.append(tmp_path / name)
    said = ccat("compare", *paths, "--json", code=(0, 3, 5))
    [outcome] = json.loads(said.out)["outcomes"]
    assert outcome["sampled"]
    assert "old is greedy (temperature 0.0) and new is sampled (temperature 0.8)" in said.err


def test_lines_of_a_document_that_contradict_each_other_are_refused(tmp_path, ccat):
    a, b = write(tmp_path, "old"), write(tmp_path, "new")
    [file] = (tmp_path / "new").glob("samples_*")
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*lines, lines[3]]))
    again = json.loads(ccat("compare", a, b, "--json", code=(0, 3, 5)).out)
    assert again["outcomes"][0]["documents"] == 20
    for change, words in (
        ({"acc": 0.25}, "acc of document 3 is 0 and 0.25; keep"),
        ({"doc_hash": "f" * 64}, "acc of document 3 is 0 and 0, with different doc_hash"),
    ):
        file.write_text("".join([*lines, json.dumps({**json.loads(lines[3]), **change}) + "\n"]))
        err = ccat("compare", a, b, code=1).err
        assert f"lines 4 and 21 contradict each other: {words}" in err and file.name in err


def edited(folder: str, edit) -> None:
    """Change a results file."""
    [file] = Path(folder).glob("results_*")
    content = json.loads(file.read_text())
    edit(content)
    file.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("change", "told"), [(0.0, False), (1e-9, False), (1e-4, True), (float("nan"), True)]
)
def test_a_results_file_that_its_samples_contradict_is_told(tmp_path, ccat, change, told):
    a, b = write(tmp_path, "old"), write(tmp_path, "new")

    def edit(content):
        content["results"]["demo"]["acc,none"] += change

    edited(b, edit)
    said = ccat("compare", a, b, "--json", code=(0, 3, 5))
    warnings = [w for w in json.loads(said.out)["warnings"] if "beside it states" in w]
    assert len(warnings) == told == said.err.count("beside it states")
    assert all("the mean acc of its samples is 0.65, the" in warning for warning in warnings)


@pytest.mark.long
def test_both_directions_of_a_metric_are_refused(tmp_path, ccat):
    """Inside one log; and, of a metric that no table has, in two logs of one folder."""
    for name in ("old", "new"):
        rows = [sample_row(k, {"mine": k / 20, "acc": 1.0}) for k in range(20)]
        write_run(tmp_path, name, rows)
    asked = "compare", tmp_path, "--models", "old,new", "--range", "0,1", "--metric"

    def lower(metric):
        return lambda content: content.update(higher_is_better={"demo": {metric: False}})

    def higher(metric):
        entry = {"metric": metric, "aggregation": "mean", "higher_is_better": True}
        return lambda content: content["configs"]["demo"].update(metric_list=[entry])

    edited(tmp_path / "old", lower("mine"))
    assert "mine (0 to 1, lower is better)" in ccat(*asked, "mine", code=(0, 3, 5)).out
    edited(tmp_path / "new", higher("mine"))
    err = ccat(*asked, "mine", code=1).err
    assert "state both that a higher mine is better and that a lower one is" in err
    assert err.count("samples_demo") == 2
    edited(tmp_path / "old", lower("acc"))
    edited(tmp_path / "new", lower("none"))
    ccat(*asked, "acc", code=(0, 3, 5))
    edited(tmp_path / "old", higher("acc"))
    err = ccat(*asked, "acc", code=1).err
    assert "a higher acc is better and" in err and err.count("samples_demo") == 1


@pytest.mark.parametrize("stated", [None, False, True])
def test_a_gate_takes_no_direction_from_a_name_that_a_task_gives_to_what_it_likes(
    tmp_path, ccat, stated
):
    """Logs hold `acc_drop` beside what the task lists; only the results may say which is better."""
    known = {} if stated is None else {"higher_is_better": {"demo": {"acc_drop": stated}}}
    for n, name in enumerate(("old", "new")):
        rows = [sample_row(k, {"acc": (k + n) % 2, "acc_drop": (k + n) / 30}) for k in range(20)]
        write_run(tmp_path, name, rows, **known)
    asked = "compare", tmp_path, "--models", "old,new"
    if stated is not None:
        ccat(*asked, "--metric", "acc_drop", code=0 if stated else 5)
        return
    err = ccat(*asked, "--metric", "acc_drop", code=2).err
    assert "neither the scale nor the direction of 'acc_drop' is known" in err
    said = ccat(*asked, "--json", code=3)
    assert [o["metric"] for o in json.loads(said.out)["outcomes"]] == ["acc"]
    assert "acc_drop is left out" in said.err
    for ends, code in (("0,1", 0), ("1,0", 5)):
        ccat(*asked, "--metric", "acc_drop", "--range", ends, code=code)


def test_an_earlier_run_whose_scores_count_was_asked_and_scored_alike_too(tmp_path):
    """Runs of other generation settings are averaged, and a later part leaves the others."""
    base = write(tmp_path, "old", config={"generation_kwargs": {"max_gen_toks": 64}})
    side = tmp_path / "two"
    write(side / "1", "new", config={"generation_kwargs": {"max_gen_toks": 8}}, day=1)
    write(side / "2", "new", config={"generation_kwargs": {"max_gen_toks": 64}}, day=2)
    with pytest.raises(UsageError, match="max_gen_toks is 64 in the baseline and 8 in the"):
        compare(base, side)
    again = tmp_path / "again"  # the same settings: a whole later run replaces the earlier one
    for day, code in ((1, "def f(x): return 0"), (2, "")):
        config = {"generation_kwargs": {"max_gen_toks": 64}, "process_results": code}
        write(again / str(day), "new", config=config, day=day)
    [left_out] = without_equal_scores(compare(base, again).warnings)
    assert left_out.startswith("candidate: 1 earlier run left out")


def test_how_far_a_difference_goes_is_told_beside_one_document_of_it(tmp_path):
    three = ["e" * 64 if k in (2, 5, 9) else target for k, target in enumerate(GOLD)]
    sides = write(tmp_path, "old", GOLD), write(tmp_path, "new", three)
    with pytest.raises(UsageError, match=r"target of document 2 .*; 3 of 20 targets differ"):
        compare(*sides)
