"""What the paper measured, measured again."""
