"""Writers of trace files."""
