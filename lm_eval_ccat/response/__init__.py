"""Response models: what score an item is expected to give at an ability, and how sure that is."""
