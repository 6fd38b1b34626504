"""The studies and tables of arXiv:2601.13885, measured with the package."""
