"""Programs that play: the perfect one, and worse ones. They read what a model would read, never the hidden state."""
