"""ALFWorld: household tasks in text. A native reader of the official engine's games; its states are values."""
