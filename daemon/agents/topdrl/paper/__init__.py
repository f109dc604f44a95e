"""What ``idlewatt reproduce topdrl`` measures and says."""
