"""How a hierarchy is changed: whole or not at all."""
