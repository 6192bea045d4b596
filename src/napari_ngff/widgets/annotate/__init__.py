"""The dock for painting: classes, objects, other plugins, fields."""
