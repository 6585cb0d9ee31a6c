package demo

// workerNetwork is what the tenant with a worker gets: the default, which has no network at all. The gateway reaches a worker
// in there through the sandbox's own holder.
const workerNetwork = ""
