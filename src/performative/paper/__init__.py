"""What the paper shows, made again: `performative reproduce`."""
