"""Rows that other processes read: workers of this machine, or of a cluster that has the files.

The driver is the process that runs the plan. It cuts the rows that a round asks for into slices,
sends each slice with the round's task to whoever is free, checks what comes back, and combines the
sums in the order of the slices. Noise, budget and checkpoint stay with the driver.

| module   | holds                                                                          |
|----------|--------------------------------------------------------------------------------|
| layout   | Parquet files as shards, the order of their rows, slices named by content      |
| messages | the three messages: a task, a slice, and what a worker answers                 |
| work     | `answer`: what a worker does with a task and a slice; bytes in, bytes out      |
| adapters | what an engine has to offer, by which address it is found                      |
| local    | threads or processes of this machine; the reference                            |
| dask     | a Dask cluster of this machine, or one that is there already                   |
| spark    | a Spark Connect server that is there already                                   |
| source   | `ClusterSource`: sums by slices, each counted once                             |
| table    | `ClusterTable`, `from_cluster`                                                 |

**An adapter is one file.** It ships bytes, and knows nothing of rows, weights or privacy. It has
what `adapters.Adapter` declares: ``map(task, slices)`` takes the bytes of a task and a mapping from
slice ids to the bytes of slices, runs ``work.answer(task, slice)`` for each of them on some worker,
and yields pairs ``(slice id, bytes)`` as they come. It may yield in any order, yield an id twice or
leave some out: the driver counts the first good answer of each id, and asks again for what is
missing. It must not sum, nor log what it ships. Where no worker answers at all it raises
`ClusterError`. A module with a function ``connect(address)`` that returns such an adapter is
registered in `adapters.SCHEMES` under the beginning of its addresses.

**The same bits everywhere.** A slice is a run of whole leaves of the order of the rows, a power of
two of them and aligned, so that slices meet as the leaves of one process would: neither the number
of workers, nor the size of slices, nor the engine moves a bit of a sum.
"""
