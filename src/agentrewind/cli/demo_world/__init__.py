"""What `agentrewind demo` plays on: a small library with a bug, six records that exist nowhere else, an agent."""
