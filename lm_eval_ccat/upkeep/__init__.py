"""What happens to a bank in its life: check, update, diff, usage."""
