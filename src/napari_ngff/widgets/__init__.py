"""Qt forms and docks: how things look and are connected; decisions are made below."""
