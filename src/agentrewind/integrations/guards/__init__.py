"""Guards of tool calls: by rules, and by a model behind any OpenAI-compatible endpoint."""
