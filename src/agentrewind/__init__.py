"""AgentRewind: go back to any step of an agent run, conversation and files together."""
