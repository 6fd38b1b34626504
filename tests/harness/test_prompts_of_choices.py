"""The choices are part of a prompt: in logs of the harness, in sessions, of earlier answers."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from local_bench import N_DOCS, Copyist
from worlds.logs import logged

from lm_eval_ccat import ScoreTable
from lm_eval_ccat.harness import open_session
from lm_eval_ccat.live.models import HarnessModel
from lm_eval_ccat.records import Item
from lm_eval_ccat.scores.answers import earlier_answers
from lm_eval_ccat.scores.prompts import compare_prompts
from lm_eval_ccat.scores.readers.samples import hash_of_row


def session(bench, task, **options):
    return open_session(task, Copyist(), include_path=str(bench.tasks), **options)


def reordered(lines):
    """The same documents, the last choice first; the few-shot examples stay as they are."""
    documents = [json.loads(line) for line in lines]
    moved = [{**doc, "options": doc["options"][3:] + doc["options"][:3]} for doc in documents]
    return [json.dumps({**doc, "gold": (doc["gold"] + 1) % 4}) for doc in moved]


def renamed(lines):
    return [line.replace("nothing at all", "none of them") for line in lines]


@pytest.fixture(scope="module")
def tasks(bench):
    """The task, and two whose contexts are its own and whose choices are not."""
    for name, change in (("reordered", reordered), ("renamed", renamed)):
        bench.variant(name, change)
    return ["choices", "reordered", "renamed"]


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("task", ["choices", "continued", "texts", "sums"])
def test_logs_of_the_harness_and_a_session_have_the_same_marks(bench, tmp_path, task, chat):
    settings = {"num_fewshot": 0} if task == "choices" else {}
    arguments = {"tasks": [task], "task_manager": bench.manager(), **settings}
    logged(tmp_path, "copyist", log_samples=True, apply_chat_template=chat, **arguments)
    filters = {"filter": "strict"} if task == "sums" else {}
    metrics = {"texts": "bleu", "sums": "exact_match"}
    table = ScoreTable.read(tmp_path, metric=metrics.get(task, "acc"), **filters)
    opened = session(bench, task, apply_chat_template=chat, **settings)
    [model] = table.models
    marks = table.prompt_marks(model)
    assert marks == opened.marks_like(marks) and len(set(marks.values())) == N_DOCS
    assert compare_prompts(marks, opened.marks_like(marks)) == ("", "")
    assert all(mark.startswith("~") for mark in marks.values()) == chat


@pytest.mark.long
def test_other_choices_or_another_order_of_them_are_another_prompt(bench, tasks):
    opened = [session(bench, task, num_fewshot=0) for task in tasks]
    assert len({row.prompts(7) for row in opened}) == 1  # the contexts are the same
    for chat in (False, True):
        own, *others = (
            session(bench, task, num_fewshot=0, apply_chat_template=chat) for task in tasks
        )
        for other in others:
            texts = {7: (own.request_text(7), other.request_text(7))}
            refusal, _ = compare_prompts(own.marks, other.marks, texts=lambda _, texts=texts: texts)
            assert f"{N_DOCS} of {N_DOCS} prompts differ" in refusal
            assert "from character" in refusal
            marks = dict.fromkeys(own.marks, "~0" if chat else None)
            assert not set(own.marks_like(marks).values()) & set(other.marks_like(marks).values())


@pytest.mark.long
def test_answers_to_other_choices_are_not_used_again(bench, tasks, tmp_path):
    arguments = {"tasks": tasks[:1], "task_manager": bench.manager(), "num_fewshot": 0}
    logged(tmp_path, "copyist", log_samples=True, **arguments)
    answers = {Item(("t", a.doc_id)): a for a in earlier_answers(tmp_path, "choices")}
    assert len(answers) == N_DOCS
    for task in tasks:
        sessions = {"t": session(bench, task, num_fewshot=0)}
        model = SimpleNamespace(sessions=sessions, prior_answers=answers)
        fits = {HarnessModel.has_prior_answer(model, item) for item in answers}
        assert fits == {task == "choices"}, task


def test_a_metric_of_mutual_information_asks_the_same_prompts_and_takes_more_answers(
    bench, tmp_path
):
    text = (bench.tasks / "choices.yaml").read_text().replace("task: choices", "task: mutual")
    (bench.tasks / "mutual.yaml").write_text(text.replace("acc_norm", "acc_mutual_info"))
    own, mutual = (session(bench, task, num_fewshot=0) for task in ("choices", "mutual"))
    assert own.n_requests(3) == 4 and mutual.n_requests(3) == 8
    assert own.marks == mutual.marks
    arguments = {"tasks": ["choices"], "task_manager": bench.manager(), "num_fewshot": 0}
    logged(tmp_path, "copyist", log_samples=True, **arguments)
    answers = {Item(("t", a.doc_id)): a for a in earlier_answers(tmp_path, "choices")}
    for opened, fits in ((own, True), (mutual, False)):
        model = SimpleNamespace(sessions={"t": opened}, prior_answers=answers)
        assert HarnessModel.has_prior_answer(model, Item(("t", 3))) == fits


@pytest.mark.long
def test_without_arguments_the_choices_are_unknown_and_a_generating_prompt_is_not(bench, tmp_path):
    """The harness's own hash covers the context alone."""
    for task, known in (("choices", False), ("texts", True)):
        arguments = {"tasks": [task], "task_manager": bench.manager(), "num_fewshot": 0}
        logged(tmp_path / task, "copyist", log_samples=True, **arguments)
        [file] = (tmp_path / task).rglob("samples_*.jsonl")
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        whole = [hash_of_row(row) for row in rows]
        bare = [{key: value for key, value in row.items() if key != "arguments"} for row in rows]
        assert [hash_of_row(row) for row in bare] == (whole if known else [None] * len(rows))
        file.write_text("".join(json.dumps(row) + "\n" for row in bare))
        table = ScoreTable.read(tmp_path / task, metric="acc" if task == "choices" else "bleu")
        marks = table.prompt_marks(*table.models)
        refusal, doubt = compare_prompts(marks, session(bench, task, num_fewshot=0).marks)
        assert not refusal and doubt.startswith("prompts unknown") != known
        assert all(
            (answer.prompt_hash is None) != known
            for answer in earlier_answers(tmp_path / task, task)
        )
