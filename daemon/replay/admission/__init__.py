"""What the scheduler itself would let start: tried job by job in Python, beside the compiled engine."""
