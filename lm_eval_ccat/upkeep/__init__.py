"""The upkeep of banks: check, update, diff, usage."""
