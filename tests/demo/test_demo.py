"""The demo: real documents, systems that differ, and an order that full evaluation confirms."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace

import numpy as np
import pytest

from lm_eval_ccat.demo import DEMO_TYPE, MAX_DOCUMENTS, register_models, systems
from lm_eval_ccat.demo.story import _compare
from lm_eval_ccat.demo.systems import (
    CALIBRATING,
    RANKED,
    SUMMARISERS,
    Document,
    process_results,
    stored_documents,
)
from lm_eval_ccat.errors import HarnessError


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return stored_documents(100)


@pytest.mark.long
def test_systems_really_differ(documents):
    assert len(SUMMARISERS) >= 12 and len(CALIBRATING) >= 8 and len(RANKED) >= 4
    assert not set(CALIBRATING) & set(RANKED)
    assert len({d.body for d in documents}) == len(documents) == 100
    assert all(4 <= len(d.summary.split()) <= 20 for d in documents)
    answers = {
        name: tuple(summarise(d.name, d.body) for d in documents)
        for name, summarise in SUMMARISERS.items()
    }
    assert len(set(answers.values())) == len(SUMMARISERS)
    means = []
    for texts in answers.values():
        scores = [process_results({"summary": d.summary}, [a]) for d, a in zip(documents, texts)]
        means.append(np.mean([score["rougeL"] for score in scores]))
    assert max(means) > 2.5 * min(means)


def test_all_documents_of_the_package_can_be_asked_for():
    documents = stored_documents(MAX_DOCUMENTS)
    assert len({d.summary for d in documents}) == MAX_DOCUMENTS  # a larger number would repeat some
    assert (
        stored_documents(MAX_DOCUMENTS // 2) == documents[::2]
    )  # fewer are spread over all of them


def test_decided_pairs_are_counted_and_those_that_full_runs_contradict_are_named():
    """Of a > b > c, by full runs, a is decided over b, c over b, and a is open to c."""
    said, rows = [], [
        {"a": a, "b": b, "p": p, "decision": decision}
        for a, b, decision, p in (("a", "b", "decided", 0.99), ("c", "b", "decided", 0.98),
                                  ("a", "c", "open", 0.6))
    ]  # fmt: skip
    models = {name: {"estimate": 0.5, "n_items": 20} for name in "abc"}
    content = {"models": models, "pairwise": rows, "items_administered": 60}
    truth = {"b": 0.3, "c": 0.2, "a": 0.4}
    assert _compare(content, truth, 100, said.append) == ["c>b"]
    assert said[0] == "  a > b > c" and said[-1] == "  wrong: c over b at 98.0%"
    count = "2 of 3 pairs were decided, 1 of them correctly, with 60 answers instead of 300."
    assert said[-2].strip() == count


def test_a_folder_that_holds_a_demo_is_left_alone(tmp_path, ccat):
    """That a demo is right where it is sure is tested with the tutorial, which begins with it."""
    (tmp_path / "rank.run").mkdir()
    assert "already holds a demo" in ccat("demo", "--dir", tmp_path, code=1).err


def test_systems_are_found_by_the_harness_and_an_unknown_one_is_named():
    from lm_eval.api.registry import get_model

    register_models()
    system = get_model(DEMO_TYPE)
    assert system(system="lead-11") is not None
    with pytest.raises(HarnessError, match="no system 'lead-12'; it has: titled"):
        system(system="lead-12")


def test_systems_answer_as_worked_out_by_hand():
    text = "Open a File. Return it! Read on: done."
    assert systems.sentences(text) == ["Open a File.", "Return it!", "Read on:", "done."]
    assert systems.content_words("The File_1 of an ID has Lines") == ["file_1", "lines"]
    assert systems.readable("os.path.get_sourceLines") == "get source lines"
    assert systems.backwards("alpha beta gamma") == "gamma beta alpha"
    assert systems.tail(2)("alpha beta gamma delta") == "gamma delta"
    assert systems.keywords(1)("tree zip zip") == "zip"
    # The mean weight of words is 3/7 and 1/5, their sum 6/7 and 1.
    assert systems.frequent("zip zip. zip tree leaf root branch.") == "zip zip."
    # Only the last two share words; the first is the longest, and most like itself.
    apart = "Quite another long remark stands here alone. Zip opens trees. Trees hold zip."
    assert systems.central(apart) == "Zip opens trees."


def test_a_random_sentence_is_the_same_in_every_process():
    for number in range(12):
        body = f"Alpha {number}. Beta. Gamma."
        digest = int(hashlib.sha256(body.encode()).hexdigest()[:8], 16)
        assert systems.any_sentence(body) == systems.sentences(body)[digest % 3]


def test_a_system_reads_the_whole_body_and_its_answer_is_cached():
    system, cached = systems.DemoSystem("tail-3"), []
    system.cache_hook = SimpleNamespace(add_partial=lambda *entry: cached.append(entry))
    prompt = ("os.walk\nAlpha beta.\n\nGamma delta.\n\nIn one line:", {})
    assert system.generate_until([SimpleNamespace(args=prompt)]) == ["beta. Gamma delta."]
    assert cached == [("generate_until", prompt, "beta. Gamma delta.")]


@pytest.mark.parametrize(("wrong", "code"), [([], 0), ([("a", "b")], 1)])
def test_a_demo_that_full_runs_contradict_does_not_end_well(monkeypatch, ccat, wrong, code):
    made = SimpleNamespace(wrong=wrong, run_dir="run")
    monkeypatch.setattr("lm_eval_ccat.demo.story.demo", lambda *_, **__: made)
    monkeypatch.setattr("lm_eval_ccat.cli.demo.write_report", lambda folder: f"{folder}/page.html")
    assert "run/page.html" in ccat("demo", code=code).out
