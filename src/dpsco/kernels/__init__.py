"""Compiled inner loops, each with a plain NumPy twin that tests compare it with.

A compiled loop is imported only when it is called, so that nobody pays for the compiler who does
not use it, and its NumPy twin serves wherever the compiler is absent.
"""
