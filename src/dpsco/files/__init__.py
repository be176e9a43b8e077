"""Files on disk, for everything that reads or writes one; nothing here knows what a file means.

| module    | holds                                                                         |
|-----------|-------------------------------------------------------------------------------|
| limits    | how large a file and the numbers in it may be: all limits in one place        |
| reading   | regular files of bounded size, JSON without surprises                         |
| writing   | a file beside its place, then on the disk, then renamed                       |
| journal   | several files that change together: all of them or none                       |
| disk      | locks, syncs, identity of files: what the two above ask of the system         |
| packing   | messages between processes: a JSON head, raw arrays, and a digest of both     |
| databases | SQLite files as others may have left them                                     |
"""
