"""A COMET checkpoint of random weights, in the real format; run by the Python of COMET.

python comet_checkpoint.py FOLDER
"""

import sys
from pathlib import Path


def main(folder):
    import pytorch_lightning
    import torch
    import yaml
    from comet.models import RegressionMetric
    from transformers import BertConfig, BertModel

    encoder = Path(folder).absolute() / "encoder"
    encoder.mkdir(parents=True)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{c}" for c in letters)]
    (encoder / "vocab.txt").write_text("\n".join(words) + "\n")
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=64,
    )  # fmt: skip
    BertModel(config).save_pretrained(encoder)
    model = RegressionMetric(
        encoder_model="BERT", pretrained_model=str(encoder), hidden_sizes=[8], layer="mix"
    )
    # Random scores lie about 0; COMET's lie between 0 and 1, and what is below is clipped.
    model.estimator.ff[-1].bias.data.fill_(0.5)
    settings = dict(model.hparams)
    Path(folder, "hparams.yaml").write_text(
        yaml.safe_dump({**settings, "class_identifier": "regression_metric"})
    )
    Path(folder, "checkpoints").mkdir()
    state = {
        "state_dict": model.state_dict(),
        "hyper_parameters": settings,
        "pytorch-lightning_version": pytorch_lightning.__version__,
        "epoch": 0,
        "global_step": 0,
    }
    torch.save(state, Path(folder, "checkpoints", "model.ckpt"))


if __name__ == "__main__":
    main(sys.argv[1])
