"""Stands where flask would be."""
