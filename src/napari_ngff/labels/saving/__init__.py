"""One save of a label image, and what is kept until it is complete."""
