"""Units and system files of idlewatt, as data."""
