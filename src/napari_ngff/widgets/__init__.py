"""Qt forms and docks: wires and looks, no decisions."""
