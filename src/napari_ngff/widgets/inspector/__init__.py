"""The dock that tells what a hierarchy is."""
