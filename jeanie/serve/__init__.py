"""The service ``jeanie serve``: a page for the camera, and the recogniser over HTTP and WebSocket."""
