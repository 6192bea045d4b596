"""What the pages of the dock of results show and do."""
