"""The one harness of the documentation: `page` says how a page tells what its examples need."""
