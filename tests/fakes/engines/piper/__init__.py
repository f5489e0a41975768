"""Stands where piper-tts would be."""
