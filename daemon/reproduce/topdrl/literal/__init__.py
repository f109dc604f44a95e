"""The paper's form, as near as its abstract and its predecessor's code tell: a convolutional network and PPO."""
