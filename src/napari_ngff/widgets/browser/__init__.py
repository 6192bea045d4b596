"""The dock that walks plates, wells and collections."""
