"""Banks of what HELM published, from a bucket on this machine: real documents and scores."""

from __future__ import annotations

import json
import random
import re
import threading
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pyarrow.parquet as pq
import pytest
from scores.test_damaged import damaged
from worlds import mmlu_pro

from lm_eval_ccat import ItemBank
from lm_eval_ccat.errors import CcatError
from lm_eval_ccat.harness import open_session
from lm_eval_ccat.integrations.log_request import LogRequest
from lm_eval_ccat.integrations.logs import logs_of

TASK = "mmlu_pro_history"
ROOT = "capabilities/benchmark_output"
MODELS = 9


class Bucket(BaseHTTPRequestHandler):
    """Google's JSON API for a listing, and the bucket's files by their names."""

    files: ClassVar[dict[str, bytes]] = {}
    asked: ClassVar[list[str]] = []
    cut: ClassVar[set[str]] = set()  # files of which half arrives
    busy = ""  # a part of the names of files for which the bucket is too busy
    page = 1  # names in one page of a listing

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.asked.append(self.path)
        place = urlsplit(self.path)
        if place.path == "/storage/v1/b/crfm-helm-public/o":
            query = parse_qs(place.query)
            [prefix] = query["prefix"]
            found = [name for name in sorted(self.files) if name.startswith(prefix)]
            if "delimiter" in query:
                tops = {name[len(prefix) :].partition("/")[0] for name in found}
                kind, listed = "prefixes", [f"{prefix}{top}/" for top in sorted(tops)]
            else:
                kind = "items"
                listed = [{"name": n, "size": str(len(self.files[n]))} for n in found]
            first = int(query.get("pageToken", ["0"])[0])
            end = first + self.page
            answer = {kind: listed[first:end]} if listed[first:end] else {}
            if end < len(listed):
                answer["nextPageToken"] = str(end)
            return self.reply(200, json.dumps({"kind": "storage#objects", **answer}).encode())
        if self.busy and self.busy in place.path:
            return self.reply(503, b"<Error><Code>ServiceUnavailable</Code></Error>")
        content = self.files.get(unquote(place.path).removeprefix("/crfm-helm-public/"))
        if content is None:
            return self.reply(404, b"<Error><Code>NoSuchKey</Code></Error>")
        return self.reply(200, content)

    def reply(self, status, content):
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if self.path in self.cut else content)
        self.close_connection = True


def stat(name, value):
    return {"name": {"name": name, "split": "test"}, "count": 1, "sum": value, "mean": value}


def write_run(files, suite, run, model, instances, scores):
    """A run as `helm-run` and `helm-summarize` leave it."""
    folder = f"{ROOT}/runs/{suite}/{run}"
    spec = {"name": run, "adapter_spec": {"model": model}}
    stats = [
        {"instance_id": instance["id"], "train_trial_index": 0,
         "stats": [stat("num_references", 10), stat("chain_of_thought_correctness", score)]}
        for instance, score in zip(instances, scores)
    ]  # fmt: skip
    right = sum(scores) / len(scores)
    means = [
        stat("num_references", 10), stat("chain_of_thought_correctness", right),
        {"name": {"name": "chain_of_thought_correctness", "split": "test",
                  "perturbation": {"name": "l"}}, "mean": 1},
    ]  # fmt: skip
    for file, value in (
        ("run_spec", spec), ("instances", instances), ("per_instance_stats", stats),
        ("stats", means),
    ):  # fmt: skip
        files[f"{folder}/{file}.json"] = json.dumps(value).encode()


@cache
def published_files(data):
    """Documents of all categories, sampled and numbered by HELM; published scores."""
    files = {}
    rows = list(mmlu_pro.documents(data))
    random.Random(0).shuffle(rows)
    history = [row for row in rows if row["category"] == "history"][:300]
    sample = [*history, *[row for row in rows if row["category"] != "history"][:200]]
    random.Random(1).shuffle(sample)
    published = mmlu_pro.scores(data)
    instances = [
        {"input": {"text": row["question"] + "\n"}, "split": "test", "id": f"id{n}",
         "references": [{"output": {"text": o}, "tags": []} for o in row["options"]]}
        for n, row in enumerate(sample)
    ]  # fmt: skip
    suites = {}
    models = [
        model
        for model in sorted({name for name, _ in published})
        if all((model, row["question_id"]) in published for row in sample)
    ][:MODELS]
    for n, model in enumerate(models):
        suite = f"v1.{n % 2}.0"
        run = f"mmlu_pro:subject=all,model=org_{model}" + (",stop=none" if n == 2 else "")
        scores = [published[model, row["question_id"]] for row in sample]
        write_run(files, suite, run, f"org/{model}", instances, scores)
        suites[run] = suite
        other = f"gpqa:subset=main,model=org_{model}"
        texts = [{**instances[0], "input": {"text": f"Question {k}?"}} for k in range(30)]
        write_run(files, suite, other, f"org/{model}", texts, [1.0] * 30)
        suites[other] = suite
    for release in ("v1.9.0", "v1.10.0"):
        place = f"{ROOT}/releases/{release}/runs_to_run_suites.json"
        files[place] = json.dumps(suites).encode()
    files[f"{ROOT}/releases/v0.1.0/summary.json"] = b"{}"
    return files


@pytest.fixture
def bucket(shared, tmp_path, monkeypatch):
    """HELM's bucket, which a test may change, and the data set in the working folder."""
    data = shared / "data"
    for state in (Bucket.files, Bucket.asked, Bucket.cut):
        state.clear()
    Bucket.files.update(published_files(data))
    mmlu_pro.write_data(tmp_path / "here", data, ("history",))
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr("lm_eval_ccat.integrations.helm._HOST", address)
    yield Bucket
    server.shutdown()
    server.server_close()


#: Calibrates at once, where a test is of what was fetched.
QUICK = ("helm:capabilities", "--method", "paper")


def calibrate(ccat, bank, name="helm:capabilities", *more, task=TASK, code=0):
    return ccat("calibrate", name, "--task", task, *more, "-o", bank, code=code)


@pytest.mark.long
def test_a_bank_of_helms_scores_names_the_harness_documents(bucket, shared, ccat, tmp_path):
    bank = tmp_path / "h.bank.json"
    said = calibrate(ccat, bank).err
    assert "v1.10.0, mmlu_pro:subject=all" in said, "the newest release, not the last by letters"
    made = ItemBank.load(bank)
    session = open_session(TASK, None)
    names = dict(zip(session.doc_ids, session.doc_hashes))
    assert {names[d] for d in made.doc_ids} == set(made.doc_hashes) and len(made.doc_ids) >= 295
    assert f"{made.n_items} of 381 documents of {TASK} found by their text" in said
    assert made.metric == "exact_match" and len(made.models) == MODELS
    assert made.provenance["prompts"] == "published elsewhere"
    assert "/helm/capabilities/v1.10.0/" in made.provenance["sources"][0]
    # Every score is the published one of this very document.
    published = mmlu_pro.scores(shared / "data")
    documents = list(session.task.eval_docs)
    calibrate(ccat, bank, "helm:capabilities@v1.9.0", "--keep_scores")
    made = ItemBank.load(bank)
    for observation in made.observations:
        model = observation.model.removeprefix("org/")
        for doc_id, score in zip(made.doc_ids, observation.scores):
            assert score == published[model, documents[doc_id]["question_id"]]
    checked = ccat("bank", "check", bank, "--documents_of", TASK, code=3).out
    assert "81 documents not in the bank" in checked and "changed" not in checked
    bucket.asked.clear()
    calibrate(ccat, bank, "helm:capabilities", "--models", "3")
    assert len(ItemBank.load(bank).models) == 3
    assert not any("/runs/" in path and path.startswith("/crfm") for path in bucket.asked), "cached"


def fetched_scores():
    """The table of all scores that are fetched of the task."""
    with logs_of(["helm:capabilities"], LogRequest(tasks=(TASK,))) as folder:
        return pq.read_table(folder / "scores.parquet").to_pylist()


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "more", "words"),
    [
        ("helm:none", (), "HELM's bucket has no releases of none"),
        ("helm:capabilities@v9", (), "no such release; there are v0.1.0, v1.9.0, v1.10.0"),
        ("helm:capabilities@v0.1.0", (), "does not say where its runs are"),
        ("helm:a b", (), "is named helm:lite, or helm:lite@v1.13.0"),
        ("helm:capabilities", ("--max_gb", "0.0004"), "GB are more than --max_gb 0.0004: take"),
        ("helm:capabilities", ("--max_gb", "1e-9"), "GB are more than --max_gb 1e-09: allow more"),
        ("helm:capabilities", ("--task", f"{TASK},gsm8k"), "stands alone, with the harness's name"),
    ],
)
def test_what_helm_does_not_have_is_one_sentence(bucket, ccat, tmp_path, name, more, words):
    bank = tmp_path / "h.bank.json"
    said = calibrate(ccat, bank, name, *more, code=2)
    assert words in said.err.splitlines()[-1] and not bank.exists()
    for fewer in re.findall(r"take about (\d+) --models", said.err):
        assert int(fewer) < MODELS


@pytest.mark.long
def test_a_document_answered_in_several_trials_scores_their_mean(bucket, shared, ccat, tmp_path):
    file = next(n for n in sorted(bucket.files) if "mmlu_pro:" in n and "_instance_stats" in n)
    model = file.partition("model=")[2].partition("/")[0].partition(",")[0].replace("_", "/", 1)
    answered = json.loads(bucket.files[file])
    for trial, others in ((1, answered[::2]), (2, answered[::4])):
        again = [{**old, "train_trial_index": trial} for old in others]
        for new, old in zip(again, others):
            [count, right] = old["stats"]
            new["stats"] = [count, stat(right["name"]["name"], 1 - right["mean"])]
        answered += again
    published = {}
    for instance in answered:
        published.setdefault(instance["instance_id"], []).append(instance["stats"][1]["mean"])
    bucket.files[file] = json.dumps(answered).encode()
    calibrate(ccat, tmp_path / "b", *QUICK, "--keep_scores")
    made = ItemBank.load(tmp_path / "b")
    [scores] = [seen.scores for seen in made.observations if seen.model == model]
    means = {sum(values) / len(values) for values in published.values()}
    assert means == {0.0, 1 / 3, 0.5, 2 / 3, 1.0}
    assert {round(float(score), 6) for score in scores} == {round(mean, 6) for mean in means}


@pytest.mark.long
def test_a_task_whose_documents_helm_shows_otherwise_gets_no_bank(bucket, ccat, tmp_path):
    """HELM's texts of the task are not those of the harness: a sentence says why not."""
    bucket.files.update({
        name: content.replace(b'{"text": "', b'{"text": "Passage: ')
        for name, content in bucket.files.items()
        if name.endswith("instances.json")
    })  # fmt: skip
    said = calibrate(ccat, tmp_path / "b", code=2).err
    assert f"no document of {TASK} was found by its text in the 3 scenarios of v1.10.0" in said


@pytest.mark.long
def test_a_file_that_breaks_off_is_refused_and_fetched_again(bucket, ccat, tmp_path):
    [large, *_] = [name for name in sorted(bucket.files) if "mmlu_pro" in name and "_stats" in name]
    path = f"/crfm-helm-public/{large}"
    bucket.cut.add(quote(path))
    said = calibrate(ccat, tmp_path / "b", code=1).err
    assert "broke off after" in said and "check the connection and try again" in said
    bucket.cut.clear()
    assert fetched_scores()


@pytest.mark.parametrize("file", ["runs_to_run_suites", "instances", "stats"])
def test_a_bucket_in_trouble_is_not_one_that_has_no_such_file(
    bucket, monkeypatch, ccat, tmp_path, file
):
    """Models that it left out, or a scenario, would be missing in the bank without a word."""
    monkeypatch.setattr(bucket, "busy", f"/{file}.json")
    said = calibrate(ccat, tmp_path / "b", code=1).err
    assert "503" in said and "check the connection and try again" in said


@pytest.mark.long
def test_only_the_scores_of_the_models_that_are_taken_are_fetched(bucket, shared, ccat, tmp_path):
    """They are spread over the range: the best and the poorest are among them."""
    bank = tmp_path / "b"
    said = calibrate(ccat, bank, "helm:capabilities", "--models", "3", "--keep_scores").err
    fetched = {unquote(p) for p in bucket.asked if "per_instance_stats" in p and "/o?" not in p}
    made = ItemBank.load(bank)
    assert len(fetched) == len(made.models) == 3 and f"3 of {MODELS} models" in said
    means = {}
    for name, content in bucket.files.items():
        if name.endswith("/stats.json") and "mmlu_pro" in name:
            model = "org/" + name.partition("model=org_")[2].partition("/")[0].partition(",")[0]
            means[model] = json.loads(content)[1]["mean"]
    assert {min(means, key=means.get), max(means, key=means.get)} <= set(made.models)
    low, high = (f"{end(means.values()):.3g}" for end in (min, max))
    assert f"(scores {low} to {high})" in said


@pytest.mark.long
@pytest.mark.parametrize(
    "file", ["runs_to_run_suites", "instances", "run_spec", "per_instance_stats", "stats"]
)
def test_a_damaged_copy_in_the_cache_is_fetched_anew(bucket, tmp_path, file):
    first = fetched_scores()
    copies = sorted((tmp_path / "cache").rglob(f"{file}.json"))
    for copy in copies:
        copy.write_bytes(copy.read_bytes()[:-9])
    bucket.asked.clear()
    assert fetched_scores() == first
    fetched = [path for path in bucket.asked if path.startswith("/crfm")]
    assert 0 < len(fetched) <= len(copies) and all(f"/{file}.json" in path for path in fetched)


@pytest.mark.long
@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(6, 120), marks=pytest.mark.slow)])
def test_a_damaged_file_of_helm_is_refused_in_one_line(bucket, tmp_path, monkeypatch, seeds):
    sound = dict(bucket.files)
    for seed in seeds:
        chance = random.Random(f"helm {seed}")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"cache{seed}"))
        bucket.files.clear()
        bucket.files.update(sound)
        name = chance.choice([n for n in sorted(sound) if "gpqa" not in n])
        bucket.files[name] = damaged(sound[name], "answer.json", chance)
        try:
            with logs_of(["helm:capabilities"], LogRequest(tasks=(TASK,))) as folder:
                assert folder.is_dir()
        except CcatError as error:
            assert str(error).count("\n") == 0 and "helm" in str(error), seed


def test_an_instance_is_one_document_alone_whatever_its_spaces_and_case():
    from lm_eval_ccat.integrations.helm import _Documents

    documents = _Documents(
        {
            0: {"q": "What  is\nit?", "a": ["x", "y"]},
            1: {"q": "Twice?", "a": ["x", "y"]},
            2: {"q": "Twice?", "a": ["x", "z"]},
            3: {"q": "Same", "a": ["x"]},
            4: {"q": "Same", "a": ["x"]},
        }
    )

    def instance(name, text, *answers, **more):
        return {"id": name, "input": {"text": text}, **more,
                "references": [{"output": {"text": a}} for a in answers]}  # fmt: skip

    instances = [
        instance("a", "what is it?"), instance("b", "twice?", "Z", "x"),
        instance("c", "same", "x"), instance("d", "other"),
        instance("e", "Twice?", "x", "y"), instance("f", "Twice?", "x", "y"),
        instance("g", "what is it?", perturbation={"name": "lower"}),
    ]  # fmt: skip
    assert documents.doc_ids(instances) == {"a": 0, "b": 2}
