"""Recognition in live streams of frames."""
