"""The method "sample": items drawn at random, the same for all models, and no bank needed."""
