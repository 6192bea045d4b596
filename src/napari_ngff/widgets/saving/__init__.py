"""Controls of painted labels, and what is asked before work is lost."""
