"""The dock that browses plates, wells and collections."""
