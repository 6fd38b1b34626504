"""Pair two languages of FLORES+ sentence by sentence."""

import datasets

PATH = "openlanguagedata/flores_plus"
SPLIT = "devtest"


def load_pair(source, target, **_):
    """The devtest sentences of two languages, in the order of their ids.

    Parameters
    ----------
    source, target : str
        Configurations of FLORES+, such as "tur_Latn". The harness passes metadata as well.
    """
    texts = {}
    for language in (source, target):
        rows = datasets.load_dataset(PATH, language, split=SPLIT)
        texts[language] = dict(zip(rows["id"], rows["text"]))
    if texts[source].keys() != texts[target].keys():
        raise ValueError(f"{PATH}: {source} and {target} do not hold the same sentences")
    ids = sorted(texts[source])
    pairs = {
        "id": ids,
        "source_text": [texts[source][i] for i in ids],
        "target_text": [texts[target][i] for i in ids],
    }
    return datasets.DatasetDict({SPLIT: datasets.Dataset.from_dict(pairs)})
