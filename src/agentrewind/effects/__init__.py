"""What a tool call will do that no restore of the workspace undoes, said before it runs (rewind.md, section 8)."""
