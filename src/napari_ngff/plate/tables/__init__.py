"""Tables of a screen, and measuring its labels."""
