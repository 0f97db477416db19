"""Other ways to keep a workspace: the same contract as the main store, each with what it declares absent."""
