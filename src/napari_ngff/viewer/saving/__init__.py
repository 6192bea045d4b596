"""When and how painted labels are saved, and what is shown of it."""
