"""The studies of the paper and of this project, on top of replay."""
