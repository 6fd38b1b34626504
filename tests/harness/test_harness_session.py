"""A session administers chosen documents, from several threads, and survives a failing model."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import pytest
from local_bench import N_DOCS, Copyist

from lm_eval_ccat.errors import CcatError, HarnessError
from lm_eval_ccat.harness import open_session
from lm_eval_ccat.harness.internals import PlaceholderLM
from lm_eval_ccat.harness.scorers import signed
from lm_eval_ccat.harness.served import Served
from lm_eval_ccat.harness.task_check import check_tasks
from lm_eval_ccat.money import Tokens


def session(bench, task="texts", lm=None, **options):
    return open_session(task, lm or Copyist(), include_path=str(bench.tasks), **options)


def test_any_order_of_documents_gives_the_rows_of_the_harness(bench):
    how = {"num_fewshot": 1, "gen_kwargs": {"temperature": 0.5}}
    stock = {row["doc_id"]: row for row in bench.stock(["texts"], **how)["samples"]["texts"]}
    opened = session(bench, **how)
    assert opened.doc_ids == tuple(range(N_DOCS))
    assert [stock[d]["doc_hash"] for d in opened.doc_ids] == list(opened.doc_hashes)
    for answer in opened.administer([17, 3]) + opened.administer([30]) + opened.administer([]):
        assert answer.samples == {"none": stock[answer.doc_id]}
        assert answer.prompts == opened.prompts(answer.doc_id)
        assert answer.values["bleu", "none"][1] == answer.responses[0]
        assert answer.seconds > 0
    assert opened.settings["num_fewshot"] == 1
    assert opened.settings["generation_kwargs"]["temperature"] == 0.5
    assert session(bench, "sums", num_fewshot=2).settings["num_fewshot"] == 0  # fixed by its YAML


def test_the_prompt_of_a_blank_to_fill_is_the_one_whose_hash_the_harness_writes(bench):
    """Each choice makes a prompt of its own, and one ending follows (as in winogrande)."""
    text = (bench.tasks / "choices.yaml").read_text()
    for old, new in (
        ("task: choices", "task: blanks"),
        ("num_fewshot: 3", "num_fewshot: 0"),
        ('doc_to_text: "{{source}} ->"', 'doc_to_text: "{{gold}}"'),
        ('"{{options}}"', "\"{{[source ~ ' says', source ~ ' means']}}\""),
        ('doc_to_target: "{{gold}}"', 'doc_to_target: "{{target}}"'),
    ):
        assert old in text
        text = text.replace(old, new)
    (bench.tasks / "blanks.yaml").write_text(text)
    stock = {row["doc_id"]: row for row in bench.stock(["blanks"])["samples"]["blanks"]}
    for answer in session(bench, "blanks").administer([5, 2]):
        assert answer.samples == {"none": stock[answer.doc_id]}
        contexts = [arguments[0] for arguments in stock[answer.doc_id]["arguments"]]
        assert len(set(contexts)) == 2


def test_a_model_without_a_chat_template_is_named_with_the_remedy(bench):
    from lm_eval.api.model import LM

    class Plain(Copyist):
        apply_chat_template = LM.apply_chat_template
        tokenizer_name = LM.tokenizer_name

    for task in ("texts", "choices"):
        with pytest.raises(HarnessError, match="type Plain have no chat template: run without"):
            session(bench, task, Plain(), apply_chat_template=True).prompts(0)
        assert session(bench, task, Plain()).prompts(0)


class Moody(Copyist):
    """Answers too little at the second call."""

    def generate_until(self, requests):
        answers = super().generate_until(requests)
        return answers[:-1] if len(self.calls) == 2 else answers


def test_a_failed_call_counts_for_nothing(bench):
    opened = session(bench, lm=Moody())
    opened.administer([1])
    with pytest.raises(HarnessError, match="answered 1 of 2"):
        opened.administer([2, 3])
    after = opened.administer([2, 3])
    assert [a.doc_id for a in after] == [2, 3]
    assert after[0].samples["none"]["resps"] == [[after[0].responses[0]]]


def test_models_of_one_session_keep_their_answers_and_score_one_after_the_other(bench):
    opened = session(bench, lm=Copyist(1.0, "one"))
    other, steps, found = opened.with_model(Copyist(0.0, "two"), False), [], []
    late = Thread(target=lambda: found.extend(other.administer([5])), daemon=True)
    stock = opened.task.process_results

    def scored(document, results):
        steps.append(results[0])
        if not late.ident:
            late.start()
            late.join(0.5)  # its model has answered, and it waits
        steps.append(results[0])
        return stock(document, results)

    opened.task.process_results = scored
    [first] = opened.administer([5])
    late.join()
    [one], [two] = first.responses, found[0].responses
    assert one == first.values["bleu", "none"][1] != two
    assert steps == [one, one, two, two]


@pytest.mark.parametrize("line", ['{"question": "q", "answer": "a"}\n', ""])
def test_a_task_without_documents_is_named_with_what_to_check(tmp_path, line):
    data = tmp_path / "data.jsonl"
    data.write_text(line)
    (tmp_path / "none.py").write_text("def no(docs):\n    return docs.select([])\n")
    (tmp_path / "none.yaml").write_text(
        "task: none_left\ndataset_path: json\ntest_split: train\noutput_type: generate_until\n"
        f"dataset_kwargs: {{data_files: {data}}}\n"
        "process_docs: !function none.no\ndoc_to_text: '{{question}}'\ndoc_to_target: answer\n"
    )
    with pytest.raises(
        CcatError, match=r"'none_left': .*without documents; check the split, .*data"
    ):
        open_session("none_left", PlaceholderLM(), include_path=str(tmp_path))
    [check] = check_tasks(["none_left"], include_path=str(tmp_path))
    assert "its data set holds no documents, or its filter" in " ".join(check.notes)


@pytest.mark.long
@pytest.mark.parametrize(
    "name, words", [("absent", "cannot load task 'absent'"), ("all_of_it", "is 2 tasks")]
)
def test_a_name_that_is_no_single_task_is_refused(bench, name, words):
    with pytest.raises(CcatError, match=words):
        session(bench, name)


def test_a_document_takes_all_answers_that_are_scored_together(bench):
    """Of `sums`, which the task asks three times each; `choices` has four answers to compare."""
    assert session(bench, "texts").n_requests(0) == 1
    assert session(bench, "choices").n_requests(0) == 4
    sums = session(bench, "sums")
    assert sums.n_requests(0) == 3
    sums.scores_each_answer = True
    assert sums.n_requests(0) == 1


def test_a_file_is_told_from_the_working_folder_where_it_lies_below_it(
    bench, tmp_path, monkeypatch
):
    opened = session(bench)
    monkeypatch.chdir(bench.tasks.parent)
    assert opened.file == str(Path("tasks", "texts.yaml"))
    monkeypatch.chdir(tmp_path)
    assert opened.file == str(bench.tasks / "texts.yaml")


def test_a_further_answer_stands_behind_the_first(bench):
    [first] = session(bench).administer([4])
    again = first.with_repeat([["another"]])
    [[said, further]] = again.samples["none"]["resps"]
    assert [said] == first.samples["none"]["resps"][0] and further == "another"


@pytest.mark.parametrize(
    ("costs", "counted"), [((0.5, 0.25), True), ((0.5, None), False), ((), False)]
)
def test_tokens_are_counted_unasked_where_a_server_states_what_every_request_costs(
    bench, costs, counted
):
    opened = session(bench)
    served = [Served(usage=Tokens(100, 7, "usage", usd=usd)) for usd in costs]
    groups = [opened._copied_requests([doc_id], ())[0] for doc_id in (3, 4)]
    found = opened._tokens_of(groups, served, [False, False])
    assert [tokens is not None for tokens in found] == [counted] * 2


def test_examples_are_turns_of_a_chat_unless_it_is_said_that_they_are_not(bench):
    for stated, turns in (({}, True), ({"fewshot_as_multiturn": False}, False)):
        opened = session(bench, apply_chat_template=True, **stated)
        assert opened.options["fewshot_as_multiturn"] is turns
        assert opened.settings["fewshot_as_multiturn"] is turns


def test_the_signature_tells_runs_with_other_prompts_apart(bench):
    """A chat template and a system instruction change every prompt, and so every score."""
    plain = session(bench, "sums")
    instructed, other = (session(bench, "sums", system_instruction=text) for text in ("A", "B"))
    lines = [signed("seed:0", "t", asking=[opened.asking]) for opened in (plain, instructed, other)]
    assert len({*lines}) == 3 and "system" not in lines[0] and "chat" not in lines[1]
    instructed.options["apply_chat_template"] = True
    assert "|chat:yes|system:" in signed("seed:0", "t", asking=[instructed.asking])
