"""The agent as published, by its abstract and its predecessor's code: a convolutional network and PPO."""
