"""API models through one loop and one pool: the same bodies, errors in words, cancellation."""

from __future__ import annotations

import json
import threading
import time
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from worlds.server import CompletionsServer

from lm_eval_ccat.harness import internals
from lm_eval_ccat.harness.transport import ServerError, Transport, pooled, seconds_to_wait

SETTINGS = [{"until": ["\n"], "max_gen_toks": 8}, {"until": ["."], "temperature": 0.7}]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """A tokenizer of single words, as files of the real format."""
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    words = {"<unk>": 0, "<eos>": 1, **{f"w{i}": i + 2 for i in range(40)}}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    folder = tmp_path_factory.mktemp("tokenizer")
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=model, unk_token="<unk>", eos_token="<eos>"
    )
    fast.save_pretrained(folder)
    return str(folder)


def make(server, **arguments):
    arguments = {"model": "m", "base_url": server.url, "max_retries": 1, "timeout": 5, **arguments}
    arguments.setdefault("tokenizer_backend", "none")
    return internals.make_lm("local-completions", arguments)


def instances(kind, texts):
    make_one = internals.resolve("lm_eval.api.instance:Instance")
    arguments = [
        (text, SETTINGS[i % 2]) if kind == "generate_until" else (text, f" w{i} w{i + 1}")
        for i, text in enumerate(texts)
    ]
    return [
        make_one(request_type=kind, doc={}, arguments=a, idx=0, metadata=("task", i, 1))
        for i, a in enumerate(arguments)
    ]


def sent(server):
    """Every prompt with all else that its request held; how they were batched does not matter."""
    rows = []
    for body in server.bodies:
        rest = {k: v for k, v in body.items() if k != "prompt"}
        prompts = body["prompt"] if isinstance(body["prompt"], list) else [body["prompt"]]
        rows += [json.dumps([prompt, rest], sort_keys=True) for prompt in prompts]
    return sorted(rows)


@pytest.mark.parametrize("at_once, batch", [(1, 1), (4, 1), (1, 3), (4, 2)])
@pytest.mark.parametrize(
    "kind, words", [("generate_until", False), ("generate_until", True), ("loglikelihood", True)]
)
def test_bodies_and_answers_are_those_of_the_harness(kind, words, at_once, batch, tokenizer):
    texts = [" ".join(f"w{(i * j) % 40}" for j in range(1, 4 + i % 3)) for i in range(7)]
    found = []
    for ours in (False, True):
        with CompletionsServer({}) as server:
            arguments = {"num_concurrent": at_once, "batch_size": batch, "max_length": 13}
            if words:
                arguments |= {"tokenizer_backend": "huggingface", "tokenizer": tokenizer}
            lm = make(server, **arguments)
            if ours:
                assert pooled(lm)
                transport = Transport(lm)
            requests = instances(kind, texts)
            internals.send(lm, requests)
            found.append((sent(server), [request.resps for request in requests]))
            if ours:
                transport.close()
    assert found[0] == found[1]


def test_connections_are_made_once_and_shared_by_threads():
    with CompletionsServer({}, latency=0.01) as server:
        lm = make(server, num_concurrent=3)
        transport = Transport(lm)
        given = {}

        def work(k):
            for i in range(8):
                [request] = instances("generate_until", [f"text {k} {i}"])
                internals.send(lm, [request])
                given[k, i] = request.resps

        threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        transport.close()
        assert server.connections <= 3 and server.most_at_once["m"] <= 3
        assert given == {(k, i): [f"text {k} {i}"] for k in range(6) for i in range(8)}


@pytest.mark.parametrize(
    "mood, kind, status, words",
    [
        (("say", 400, '{"error": {"message": "too long by 7"}}'), "status", 400, "too long by 7"),
        (("say", 404, '{"detail": "no such model"}'), "status", 404, "no such model"),
        (("say", 502, "<html>bad\n gateway</html>"), "status", 502, "<html>bad gateway</html>"),
        (("say", 200, '{"error": {"message": "quota", "code": 429}}'), "answer", 429, "quota"),
        (("say", 200, '{"choices": []}'), "answer", None, '{"choices": []}'),
        (("say", 200, '{"choices": [{"index": 0}]}'), "answer", None, "index"),
        (("garbage",), "answer", None, '{"choices": [{"index"'),
        (("drop",), "connection", None, ""),
        (("hang", 3.0), "timeout", None, ""),
    ],
)
def test_the_servers_own_words_come_with_the_error(mood, kind, status, words):
    with CompletionsServer({}, mood=lambda *_: mood) as server:
        lm = make(server, timeout=1)
        transport = Transport(lm)
        with pytest.raises(ServerError) as caught:
            internals.send(lm, instances("generate_until", ["text"]))
        transport.close()
    assert (caught.value.kind, caught.value.status) == (kind, status)
    assert words in caught.value.words and words in str(caught.value)


def test_retry_after_is_read_in_both_its_forms():
    then = datetime.now(timezone.utc) + timedelta(seconds=90)
    with CompletionsServer(
        {}, mood=lambda *_: ("say", 429, "{}", {"Retry-After": format_datetime(then, usegmt=True)})
    ) as server:
        lm = make(server)
        transport = Transport(lm)
        with pytest.raises(ServerError) as caught:
            internals.send(lm, instances("generate_until", ["text"]))
        transport.close()
    assert caught.value.retry_after == pytest.approx(90, abs=5)
    assert seconds_to_wait("7") == 7.0
    assert seconds_to_wait("Thu, 01 Jan 1970 00:00:00 GMT") == 0.0
    assert seconds_to_wait("soon") is None


def test_what_is_in_flight_is_cancelled_at_once_and_further_requests_are_refused():
    with CompletionsServer({}, mood=lambda *_: ("hang", 5.0)) as server:
        lm = make(server, num_concurrent=2, timeout=60)
        transport = Transport(lm)
        caught = []

        def work():
            try:
                internals.send(lm, instances("generate_until", ["text"]))
            except ServerError as error:
                caught.append(error.kind)

        threads = [threading.Thread(target=work) for _ in range(4)]  # two of them wait for a slot
        [thread.start() for thread in threads]
        while sum(server.asked.values()) < 2:
            time.sleep(0.005)
        started = time.monotonic()
        transport.cancel()
        [thread.join() for thread in threads]
        assert time.monotonic() - started < 4  # not when the server answers
        assert caught == ["cancelled"] * 4
        with pytest.raises(ServerError, match="no more requests"):
            internals.send(lm, instances("generate_until", ["text"]))
        server.mood = None
        transport.resume()
        [request] = instances("generate_until", ["text"])
        internals.send(lm, [request])
        assert request.resps == ["text"]
        transport.close()


def test_the_response_cache_stays_in_front(tmp_path):
    with CompletionsServer({}) as server:
        lm = make(server, num_concurrent=4)
        transport = Transport(lm)
        cached = internals.with_cache(lm, str(tmp_path / "cache.db"))
        for _ in range(2):
            [request] = instances("generate_until", ["text"])
            internals.send(cached, [request])
            assert request.resps == ["text"]
        transport.close()
        assert len(server.bodies) == 1
        [request] = instances("generate_until", ["another text"])
        internals.send(lm, [request])  # closed, the model sends as it did
        assert request.resps == ["another text"]


def test_models_with_a_loop_of_their_own_are_left_alone():
    with CompletionsServer({}) as server:
        lm = make(server)
        stock = type(lm)
        changed = type("Changed", (stock,), {"model_call": lambda self, *a, **k: None})
        lm.__class__ = changed
        assert not pooled(lm)
    assert not pooled(internals.make_lm("dummy", {}))
