"""Rules that decide which job starts where: order x placement x backfill, one file per rule."""
