"""Documents built alone: the same requests as in a full run, and only where that is certain."""

from __future__ import annotations

import pytest
from local_bench import Copyist

from lm_eval_ccat.harness import TaskSession, internals
from lm_eval_ccat.harness.internals import Requests
from lm_eval_ccat.harness.internals import task as building


def load(bench, name, num_fewshot=None, sampler=None):
    task = bench.manager().load([name])["tasks"][name]
    if num_fewshot is not None:
        task.set_config(key="num_fewshot", value=num_fewshot)
    task.set_fewshot_seed(seed=1234)
    if sampler:
        kind = internals.resolve(f"lm_eval.api.samplers:{sampler}")
        task.sampler = kind(task.sampler.df, rnd=1234)
    return task


CASES = [
    ("sums", None, None, {}),
    ("texts", 0, None, {}),
    ("choices", 0, None, {"system_instruction": "Be brief."}),
    ("texts", 2, "FirstNSampler", {}),
    ("choices", 3, "FirstNSampler", {"apply_chat_template": True, "fewshot_as_multiturn": True}),
    ("texts", 0, None, {"apply_chat_template": True}),
    ("texts", 2, None, {}),  # examples drawn from other documents
    ("choices", 3, None, {"apply_chat_template": True}),  # drawn from the documents themselves
]


@pytest.mark.parametrize(("name", "shots", "sampler", "options"), CASES)
def test_requests_are_those_of_a_full_run(bench, name, shots, sampler, options):
    lm = Copyist()
    few = Requests(load(bench, name, shots, sampler), lm, options)
    full = building._build_all(load(bench, name, shots, sampler), lm, options)
    assert list(few) == list(full)
    for doc_id in reversed(list(few)):
        assert len(few[doc_id]) == len(full[doc_id])
        for a, b in zip(few[doc_id], full[doc_id]):
            for part in ("request_type", "arguments", "idx", "doc_id", "repeats", "doc"):
                assert getattr(a, part) == getattr(b, part)
            assert a.metadata == b.metadata
    for absent in (10**6, -1):
        with pytest.raises(KeyError):
            few[absent]


def test_all_requests_are_built_where_order_may_matter(bench):
    """Where the harness caches or prints the whole list, or a task's own code may keep state."""
    task = load(bench, "texts", 0)
    assert internals.builds_alone(task, {})
    for option in ("cache_requests", "rewrite_requests_cache", "write_out"):
        assert not internals.builds_alone(task, {option: True})
    for text in (lambda doc: doc["source"], "{{ [source, target] | random }}"):
        task.set_config(key="doc_to_text", value=text)
        assert not internals.builds_alone(task, {})
    task = load(bench, "texts", 0)
    task.__class__ = type("Own", (type(task),), {"fewshot_context": lambda self, *a, **k: "x"})
    assert not internals.builds_alone(task, {})


def test_only_chosen_documents_are_built(bench, monkeypatch):
    built = []
    real = building._build_one

    def counting(task, how, doc_id, doc):
        built.append(doc_id)
        return real(task, how, doc_id, doc)

    monkeypatch.setattr(building, "_build_one", counting)
    session = TaskSession(load(bench, "sums"), Copyist())
    assert len(session.doc_ids) == 36 and len(session.doc_hashes) == 36 and built == []
    session.administer([7, 3])
    session.administer([7])
    assert built == [7, 3]


def test_few_documents_are_kept_and_what_cannot_be_copied_is_read_again(bench, monkeypatch):
    monkeypatch.setattr(building, "_DECODED", 4)
    requests = Requests(load(bench, "texts"), Copyist(), {})
    decoded = []

    class Docs(list):
        def __getitem__(self, doc_id):
            decoded.append(doc_id)
            return super().__getitem__(doc_id)

    requests.docs = Docs([*map(dict, requests.docs)])
    for doc_id in (0, 1, 2, 0, 3, 4, 5, 6, 0):
        document = requests.document(doc_id)
        document["source"] = "written into"
    assert decoded == [0, 1, 2, 3, 4, 5, 6, 0]  # the first was let go
    assert requests.document(6)["source"] != "written into"
    requests.docs[2]["open"] = (n for n in ())
    assert requests.document(2)["open"] is requests.document(2)["open"]
