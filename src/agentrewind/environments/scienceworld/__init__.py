"""ScienceWorld: experiments in a house, in words. The simulator can't be saved; going back is a reset and a replay."""
