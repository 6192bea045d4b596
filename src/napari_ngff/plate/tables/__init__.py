"""Tables of plates, and measuring labels."""
