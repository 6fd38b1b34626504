"""Tiny language models of random weights, in the real format, for tests without a network."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def tiny_model(folder: Path, seed: int = 0, words: Iterable[str] = ()) -> str:
    """Write a model of one layer and a tokenizer of whole words; the folder, for ``pretrained=``.

    Parameters
    ----------
    folder : Path
    seed : int
        Of the weights.
    words : iterable of str
        The vocabulary, besides the numbers below 100.
    """
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    known = dict.fromkeys(["<eos>", "<unk>", *map(str, range(100)), *words])
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(known)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    torch.manual_seed(seed)
    config = GPT2Config(vocab_size=len(known), n_positions=288, n_embd=16, n_layer=1, n_head=2)
    config.bos_token_id = config.eos_token_id = 0
    GPT2LMHeadModel(config).save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<eos>", unk_token="<unk>", pad_token="<eos>"
    ).save_pretrained(folder)
    return str(folder)
