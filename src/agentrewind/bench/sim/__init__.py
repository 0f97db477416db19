"""A simulated model: a policy that errs, forgets and learns, behind a real OpenAI-compatible server.

Stateless: all it knows stands in the messages that it is sent, and chance is a hash of seed, step and visible notes. So
a rewind of the conversation really rewinds it, what stays in the conversation really is in its way, and a note helps it
only where it was injected.
"""
