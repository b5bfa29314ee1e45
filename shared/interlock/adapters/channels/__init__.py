"""The channels: how each platform is called, what a card looks like there, and what it sends back."""
