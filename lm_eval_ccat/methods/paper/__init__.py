"""The method "paper": exactly arXiv:2601.13885."""
