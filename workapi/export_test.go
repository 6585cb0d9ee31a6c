package workapi

// ReadEvent is for the fuzz test: what a daemon sends is parsed by the command line.
var ReadEvent = readEvent
