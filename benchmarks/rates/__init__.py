"""Rates as measurements: excess risk against n on problems whose excess is known exactly.

``make bench-rates`` runs every experiment of every family and compares slope and excess with the
bands that the theory (or an earlier measurement) gives.
"""
