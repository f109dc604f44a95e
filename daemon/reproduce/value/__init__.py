"""What each way of deciding is worth on public traces, beside the site's own scheduler, chance, oracles and a bound."""
