"""Independent models of what the tests judge: readers of raw images and a volume made of dicts."""
