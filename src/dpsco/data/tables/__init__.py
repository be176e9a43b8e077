"""Where rows come from: arrays, frames, files, streams."""
