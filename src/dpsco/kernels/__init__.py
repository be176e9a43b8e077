"""Compiled inner loops, each with a plain NumPy reference implementation.

A compiled loop is imported only when it is called, so that nobody pays for the compiler who does
not use it, and the reference serves wherever the compiler is absent.
"""
