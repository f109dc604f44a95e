"""The head of idlewatt: configuration, service, web, command line, waste, advice."""
