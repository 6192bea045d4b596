"""When and how painted labels are saved, and what the user is told of it."""
