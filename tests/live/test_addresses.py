"""Addresses at which no server answers: told at once at first contact, waited for afterwards."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from worlds.server import untrusted_server

from lm_eval_ccat.live.failures import Availability
from lm_eval_ccat.live.ranking_run import rank
from lm_eval_ccat.live.surfaces import may_change

THREE = ["m01", "m05", "m11"]


@pytest.fixture
def closed() -> Iterator[str]:
    """The address of a port on which nobody listens."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{holder.getsockname()[1]}/v1/completions"


@pytest.fixture
def tls_server(tmp_path: Path) -> Iterator[str]:
    """The address of a server whose certificate nobody trusts."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    with untrusted_server(tmp_path) as address:
        yield address


@pytest.mark.parametrize(
    ("address", "remedy"),
    [
        ("{closed}", "start the server, or correct the port in its base_url"),
        ("http://nowhere.invalid/v1/completions", "correct the host in its base_url"),
        ("{tls}", "if the server has no TLS, begin its base_url with http://"),
    ],
)
def test_a_wrong_address_ends_its_model_at_once(bench, server, closed, address, remedy):
    server.latency = 0.02
    url = address.format(closed=closed, tls=server.url.replace("http:", "https:"))
    config = bench.config(
        server.url, THREE, bank=None, of={"m05": {"model_args": {"model": "m05", "base_url": url,
        "tokenizer_backend": "none"}}}, entry={"concurrency": 8},
    )  # fmt: skip
    began = time.monotonic()
    content = rank(config).content
    why = content["models"]["m05"]["set_aside"]
    assert why.startswith(f"wrong address {url}: {remedy}") and content["order"] == ["m11", "m01"]
    assert time.monotonic() - began < 60.0  # an outage of a server that answered: 15 minutes


@pytest.mark.long
def test_an_untrusted_certificate_ends_its_model_at_once(bench, server, tls_server):
    config = bench.config(
        server.url, THREE, bank=None, of={"m05": {"model_args": {"model": "m05",
        "base_url": tls_server, "tokenizer_backend": "none"}}},
    )  # fmt: skip
    content = rank(config).content
    assert content["models"]["m05"]["set_aside"] == (
        f"wrong address {tls_server}: set ca_cert_path=FILE in its model_args, or "
        "verify_certificate=False (the connection failed: self-signed certificate)"
    )
    assert content["order"] == ["m11", "m01"]


@pytest.mark.long
@pytest.mark.parametrize(
    "address", ["{closed}", "http://nowhere.invalid/v1/completions", "{plain}", "{tls}"]
)
def test_a_wrong_address_is_told_before_the_other_model_spends(
    bench, server, closed, tls_server, address
):
    plain = server.url.replace("http:", "https:")
    url = address.format(closed=closed, plain=plain, tls=tls_server)
    server.latency = 0.2
    config = bench.config(
        server.url, ["m11", "m05"], bank=None, of={"m05": {"model_args": {"model": "m05",
        "base_url": url, "tokenizer_backend": "none"}}}, entry={"concurrency": 64},
    )  # fmt: skip
    result = rank(config)
    assert result.content["models"]["m05"]["set_aside"].startswith(f"wrong address {url}: ")
    assert "only m11 is left" in result.content["stopped_because"] and result.exit_code == 4
    assert server.requests("m11") <= 1  # its first item, which tells whether its own address is


@pytest.mark.parametrize("remedy", ["ca_cert_path", "verify_certificate"])
def test_a_certificate_that_changes_later_is_no_other_run(remedy):
    assert may_change().fullmatch(f"config.models[m05].model_args.{remedy}")


@pytest.mark.long
def test_a_server_that_has_answered_is_waited_for(bench, server):
    """It is gone for a while after some answers: no connection is made."""
    gone: list[float] = []

    def mood(model: str, prompt: str, before: int) -> tuple | None:
        if server.answers("m01") == 8 and not gone:
            gone.append(time.monotonic())
        return ("drop",) if gone and time.monotonic() - gone[0] < 1.0 else None

    server.mood = mood
    config = bench.config(
        server.url, ["m01", "m11"], bank=None, stop="limits", max_items=20,
        failures={"backoff": 0.1},
    )  # fmt: skip
    content = rank(config).content
    assert gone and all(content["models"][m]["n_items"] == 20 for m in ("m01", "m11"))


def test_after_an_outage_of_any_length_the_server_is_asked_within_two_seconds():
    for outage in (3.0, 7.0, 20.0, 45.0, 300.0):
        gate, now = Availability(limit=900.0, backoff=1.0, max_backoff=30.0), 0.0
        gate.failed(now, now, "HTTP 503")
        while not (asks := gate.admit(now)) or now < outage:
            if asks:
                gate.failed(now, now, "HTTP 503")
            now += 0.01
        assert now - outage <= 2.02
