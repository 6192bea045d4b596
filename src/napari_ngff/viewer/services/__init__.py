"""What all code may ask of its surroundings: the window, messages, preferences."""
