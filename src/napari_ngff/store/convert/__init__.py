"""Conversions: a plan of work units from metadata alone, and what runs them."""
