"""The ways in over HTTP: LibreTranslate's API, our own, the page; keys, limits and figures. Knows no Ray."""
