"""Search for movements in archives."""
