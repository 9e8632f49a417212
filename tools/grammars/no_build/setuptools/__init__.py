"""Stands where setuptools would: see build_meta.py."""
