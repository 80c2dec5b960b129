"""Where things run: profiles, images, cluster definitions."""
