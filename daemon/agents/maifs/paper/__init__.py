"""What MAIFS claims, beside what comes of it here."""
