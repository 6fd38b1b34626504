"""Other tools: experiment trackers and the Hugging Face hub. Each needs its own package."""
