"""What a session counts of a call: seconds, tokens, bills, seeds, and what was withheld."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import pytest
from local_bench import N_DOCS, Copyist, documents

from lm_eval_ccat.errors import HarnessError
from lm_eval_ccat.harness import internals, open_session
from lm_eval_ccat.harness.served import Served, note_served
from lm_eval_ccat.harness.session import refuse_unsupported
from lm_eval_ccat.money import estimate_tokens


class Telling(Copyist):
    """Its server says of each call what `bodies` hold, and withholds the answers to `withheld`."""

    bodies: tuple[dict[str, Any], ...] = ()
    withheld: tuple[int, ...] = ()

    def generate_until(self, requests):
        note_served([Served.of(body) for body in self.bodies])
        answers = super().generate_until(requests)
        return ["" if n in self.withheld else answer for n, answer in enumerate(answers)]


def session(bench, task="texts", lm=None, **options):
    return open_session(task, lm or Telling(), include_path=str(bench.tasks), **options)


def test_an_answer_of_the_response_cache_takes_no_time(bench, tmp_path):
    opened = session(bench, lm=internals.with_cache(Copyist(), str(tmp_path / "answers.db")))
    assert [a.cached for a in opened.administer([1, 2])] == [False, False]
    again, new = opened.administer([1, 3])
    assert (again.cached, again.seconds, new.cached) == (True, 0.0, False) and new.seconds > 0.0


def test_what_a_filter_withheld_has_no_score_and_a_filtered_text_has_one(bench):
    lm = Telling()
    opened = session(bench, lm=lm)
    none = {"finish_reason": "content_filter", "message": {"content": None}}
    cut = {"finish_reason": "content_filter", "message": {"content": "half an answer"}}
    for choice, withheld, scored in ((none, (0,), [False, True]), (cut, (0,), [True, True])):
        lm.bodies, lm.withheld = ({"choices": [choice]},), withheld
        answers = opened.administer([4, 5])
        assert [bool(answer.values) for answer in answers] == scored
        said = "the server's filter withheld the answer"
        assert [said in answer.unscored for answer in answers] == [not x for x in scored]


def test_an_empty_answer_beside_a_withheld_one_is_the_models_own(bench):
    lm = Telling()
    opened = session(bench, lm=lm)
    none = {"finish_reason": "content_filter", "message": {"content": None}}
    empty = {"finish_reason": "stop", "message": {"content": ""}}
    lm.bodies, lm.withheld = ({"choices": [empty]}, {"choices": [none]}), (0, 1)
    answers = opened.administer([4, 5])
    assert [bool(answer.values) for answer in answers] == [True, False]


def test_a_likelihood_reads_prompt_and_continuation_and_writes_nothing(bench):
    opened = session(bench, "choices", count_tokens=True)
    [answer] = opened.administer([7])
    options = documents("test", N_DOCS)[7]["options"]
    texts = [prompt + " " + option for prompt, option in zip(answer.prompts, options)]
    assert answer.tokens.input == pytest.approx(sum(map(estimate_tokens, texts)))
    assert answer.tokens.output == 0


def test_a_bill_is_shared_by_the_documents_of_its_call_and_counts_if_it_is_whole(bench):
    lm = Telling()
    opened = session(bench, lm=lm, count_tokens=True)
    usage = {"prompt_tokens": 700, "completion_tokens": 90, "total_tokens": 790}
    billed, unbilled = {"usage": usage}, {"id": "x"}
    lm.bodies = (billed, billed)
    counts = [answer.tokens for answer in opened.administer([4, 5, 6])]
    assert sum(tokens.input for tokens in counts) == pytest.approx(1400)
    assert sum(tokens.output for tokens in counts) == pytest.approx(180)
    assert {tokens.source for tokens in counts} == {"usage"} and len(set(counts)) == 3
    lm.bodies = (billed, unbilled)
    by_texts = opened.administer([4, 5, 6])
    for answer in by_texts:
        assert answer.tokens.source == "estimate"
        assert answer.tokens.input == pytest.approx(sum(map(estimate_tokens, answer.prompts)))


def test_a_prompt_is_read_as_often_as_it_is_answered(bench):
    opened = session(bench, count_tokens=True)
    asked = [
        SimpleNamespace(
            request_type="generate_until", args=("so many words", {}), repeats=n, resps=["one"] * n
        )
        for n in (1, 3)
    ]
    once, thrice = opened._counted([[asked[0]], [asked[1]]], [])
    assert thrice.input == pytest.approx(3 * once.input) and once.input > 0
    assert thrice.output == pytest.approx(3 * once.output)


def test_a_further_answer_to_a_document_has_a_seed_of_its_own(bench):
    class Seeded(Copyist):
        _seed = 70

        def _create_payload(self, messages, seed=1):
            raise NotImplementedError

    lm = Seeded()
    assert "seed" in inspect.signature(lm._create_payload).parameters
    opened = session(bench, lm=lm)
    opened.ask([3, 3, 3], [1, 2, 3])
    seeds = [settings.get("seed") for _, settings in lm.seen]
    assert seeds == [None, 71, 72]
    assert len({prompt for prompt, _ in lm.seen}) == 1


def test_a_batch_is_sized_by_the_longest_of_the_prompts(bench):
    asked: list[int] = []
    lm = Copyist()
    lm.batch_size, lm.max_length, lm.tok_encode = "auto", 10_000, list
    lm._detect_batch_size = lambda requests, position: asked.append(len(requests[0][1])) or 4
    opened = session(bench, lm=lm)
    opened.settle_batch()
    longest = max(len(prompt) for doc_id in opened.doc_ids for prompt in opened.prompts(doc_id))
    shortest = min(len(prompt) for doc_id in opened.doc_ids for prompt in opened.prompts(doc_id))
    [tokens] = asked
    assert lm.batch_size_per_gpu == 4 and shortest < tokens - opened.token_limit
    assert 0.9 * longest <= tokens - opened.token_limit <= 1.5 * longest


def test_a_task_that_writes_into_a_document_changes_no_other_scoring_of_it(bench, monkeypatch):
    """Tasks in code may hold their documents as a list, which gives the same one each time."""
    opened = session(bench)
    held, found = list(opened.task.eval_docs), []
    monkeypatch.setattr(type(opened.task), "eval_docs", property(lambda task: held))

    def scored(document, results):
        found.append("note" in document)
        document["note"] = results[0]
        return {"bleu": 1.0}

    opened.task.process_results = scored
    for _ in range(2):
        opened.administer([3])
    assert found == [False, False]


@pytest.mark.parametrize(
    ("processes", "kind", "says"),
    [
        (2, "generate_until", "runs as 2 data-parallel processes"),
        (1, "loglikelihood_rolling", "has no score per document"),
        (1, "another", "another"),
    ],
)
def test_what_has_no_score_per_document_or_runs_elsewhere_is_refused(processes, kind, says):
    task = SimpleNamespace(OUTPUT_TYPE=kind, task_name="t", config=SimpleNamespace(task="t"))
    with pytest.raises(HarnessError, match=says):
        refuse_unsupported(task, SimpleNamespace(world_size=processes))
