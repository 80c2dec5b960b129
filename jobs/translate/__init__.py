"""The stage `translate`: a test set through a trained model; export to other engines."""
