"""The dock that shows what a hierarchy contains."""
