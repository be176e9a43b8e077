"""Runs that survive a crash."""
