"""The retrieval pipeline: query analysis, fusion, scoring, packing."""
