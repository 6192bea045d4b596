"""Results of a plate: values of wells and conditions, made of the rows of tables."""
