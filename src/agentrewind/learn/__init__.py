"""Retrospective exploration: trials that go back, what they leave, and how a model learns from it."""
