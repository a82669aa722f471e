"""Highwater: transactions that are committed at once, durable a moment later, and never silently lost."""
