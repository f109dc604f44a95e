"""What each agent is worth on sites that it was not made for: public traces, at published speeds."""
